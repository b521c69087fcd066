//! Small pieces of memory that a thread has freed, kept for it.
//!
//! glibc keeps seven of each size for a thread; what is freed beyond these joins its neighbours in the heap, and is cut out of them again when it is
//! wanted. The thread that carries updates out makes and frees 170 pieces for each, and took a fifth of its time for that.
//!
//! Invariant: a piece in a stack is as large as that stack's size at least. All small pieces of the process are asked for in these sizes, whoever
//! asks (`Size::layout`), so whoever frees one knows its stack by what was wanted.
//!
//! Bound: `KEPT_OCTETS` of each of `SIZES` sizes (2 MiB), for a thread that has asked for that, and until it lets go of them.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;

/// The sizes: 24, 40, 56, … octets. With its own 8 glibc takes whole sixteens for a piece, so it takes no more for these.
const SIZES: usize = 64;
const SMALLEST: usize = 24;
const STEP: usize = 16;
/// No small piece begins on a greater border.
const BORDER: usize = 16;
const KEPT_OCTETS: usize = 32 << 10;

/// That of a small piece.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(usize);

impl Size {
    /// None: it is not small.
    #[inline]
    pub(crate) fn of(layout: Layout) -> Option<Size> {
        let size = layout.size().saturating_sub(SMALLEST).div_ceil(STEP);
        (size < SIZES && layout.align() <= BORDER).then_some(Size(size))
    }

    #[inline]
    fn octets(self) -> usize {
        SMALLEST + STEP * self.0
    }

    /// How a piece of this size is asked for.
    #[inline]
    pub(crate) fn layout(self) -> Layout {
        // SAFETY: a power of two, and about a thousand octets at most.
        unsafe { Layout::from_size_align_unchecked(self.octets(), BORDER) }
    }
}

/// What a free piece holds.
struct Link {
    below: *mut Link,
}

#[derive(Clone, Copy)]
struct Stack {
    top: *mut Link,
    /// How many more may come.
    room: usize,
}

struct Own([Stack; SIZES]);

thread_local! {
    /// None: this thread keeps nothing. Nothing is done with it when a thread ends, so it can be asked for until then.
    static OWN: Cell<*mut Own> = const { Cell::new(null_mut()) };
}

/// From now on this thread keeps what it frees. For one that lives as long as the process: what it has is no other's when it ends.
pub fn keep() {
    if OWN.get().is_null() {
        let empty = |size| Stack { top: null_mut(), room: KEPT_OCTETS / Size(size).octets() };
        let own = Box::new(Own(std::array::from_fn(empty)));
        OWN.set(Box::into_raw(own));
    }
}

/// A piece that this thread has kept.
#[inline]
pub(crate) fn take(size: Size) -> Option<*mut u8> {
    let own = OWN.get();
    // SAFETY: null, or from `Box::into_raw` and never freed; it is this thread's alone, nothing here calls anything that could come back to it, and
    // no handler of a signal takes memory.
    let stack = unsafe { own.as_mut() }?.0.get_mut(size.0)?;
    let top = stack.top;
    // SAFETY: what lies on a stack was given back by its owner, is large enough for a link, and holds one.
    stack.top = unsafe { top.as_ref() }?.below;
    stack.room += 1;
    Some(top.cast())
}

/// False: this thread does not keep it.
///
/// # Safety
/// It was asked for in this size, and nobody looks at it any more.
#[inline]
pub(crate) unsafe fn put(at: *mut u8, size: Size) -> bool {
    let own = OWN.get();
    // SAFETY: as in `take`.
    let Some(stack) = unsafe { own.as_mut() }.and_then(|own| own.0.get_mut(size.0)).filter(|s| s.room > 0) else {
        return false;
    };
    // SAFETY: what the system gave out (malloc_usable_size(3)).
    #[cfg(target_env = "gnu")]
    debug_assert!(unsafe { libc::malloc_usable_size(at.cast()) } >= size.octets(), "it was asked for in another size");
    let link = at.cast::<Link>();
    // SAFETY: the caller's promise; a piece has 24 octets at least, and begins where a pointer may.
    unsafe { link.write(Link { below: stack.top }) };
    (stack.top, stack.room) = (link, stack.room - 1);
    true
}

/// Frees what this thread has kept.
pub fn let_go() {
    for size in (0..SIZES).map(Size) {
        while let Some(piece) = take(size) {
            // SAFETY: it came from there, and was asked for so.
            unsafe { System.dealloc(piece, size.layout()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Gradual;
    use std::sync::mpsc::channel;
    use std::thread;

    fn of(octets: usize) -> Layout {
        Layout::from_size_align(octets, 8).unwrap()
    }

    /// As many as this thread has kept.
    fn kept() -> usize {
        // SAFETY: as in `take`.
        let own = unsafe { OWN.get().as_ref() };
        let of = |(size, stack): (usize, &Stack)| KEPT_OCTETS / Size(size).octets() - stack.room;
        own.map_or(0, |own| own.0.iter().enumerate().map(of).sum())
    }

    #[test]
    fn a_size_holds_what_is_asked_for_in_it() {
        for octets in 1..=1032 {
            let size = Size::of(of(octets)).unwrap();
            assert!(size.octets() >= octets && (size.octets() < octets + STEP || octets < SMALLEST), "{octets}");
            assert!(size.layout().align() == BORDER && size.octets() % STEP == 8, "{octets}");
        }
        assert!(Size::of(of(1033)).is_none() && Size::of(Layout::from_size_align(64, 32).unwrap()).is_none());
    }

    #[test]
    fn who_keeps_pieces_has_them_again_and_no_more_than_there_is_room_for() {
        let keeper = || {
            // SAFETY: of a size that is not zero.
            let all = || -> Vec<*mut u8> { (0..1000).map(|_| unsafe { Gradual.alloc(of(100)) }).collect() };
            // SAFETY: each was asked for so, and is given back once.
            let free = |all: &[*mut u8]| all.iter().for_each(|at| unsafe { Gradual.dealloc(*at, of(100)) });
            free(&all());
            assert_eq!(kept(), 0, "nobody has asked for it");
            keep();
            let first = all();
            free(&first);
            let room = KEPT_OCTETS / 104;
            assert_eq!(kept(), room);
            let again = all();
            assert_eq!((kept(), again[0]), (0, first[room - 1]), "the last that there was room for");
            free(&again);
            crate::heap::let_go();
            assert_eq!(kept(), 0);
        };
        thread::spawn(keeper).join().unwrap();
    }

    /// A piece, how it was asked for, and the octet it is full of.
    struct Filled(*mut u8, Layout, u8);

    // SAFETY: memory of nobody's but who holds this.
    unsafe impl Send for Filled {}

    impl Filled {
        fn new(at: *mut u8, layout: Layout, fill: u8) -> Filled {
            assert!(!at.is_null() && at.addr().is_multiple_of(layout.align()), "{layout:?}");
            // SAFETY: so many octets are ours.
            unsafe { at.write_bytes(fill, layout.size()) };
            Filled(at, layout, fill)
        }

        fn check(&self) {
            self.holds(self.2, self.1.size());
        }

        fn holds(&self, fill: u8, octets: usize) {
            // SAFETY: so many octets at least, all written.
            let held = unsafe { std::slice::from_raw_parts(self.0, octets) };
            assert!(held.iter().all(|octet| *octet == fill), "{:?}: not all is {fill}", self.1);
        }
    }

    /// Makes, frees and changes pieces of all sizes, some of them another thread's.
    fn work(all: &mut Vec<Filled>, seed: &mut u64) {
        for _ in 0..500 {
            *seed ^= *seed << 13;
            *seed ^= *seed >> 7;
            *seed ^= *seed << 17;
            let (octets, fill, border) = (1 + (*seed >> 8) as usize % 1200, (*seed >> 40) as u8, [1, 8, 16, 64]);
            let layout = Layout::from_size_align(octets, border[(*seed >> 50) as usize % 4]).unwrap();
            if all.is_empty() || seed.is_multiple_of(5) {
                // SAFETY: of a size that is not zero.
                all.push(Filled::new(unsafe { Gradual.alloc(layout) }, layout, fill));
            } else if seed.is_multiple_of(4) {
                // SAFETY: of a size that is not zero.
                let new = Filled(unsafe { Gradual.alloc_zeroed(layout) }, layout, 0);
                new.check();
                all.push(Filled::new(new.0, layout, fill));
            } else {
                let old = all.swap_remove((*seed >> 20) as usize % all.len());
                old.check();
                if seed.is_multiple_of(2) {
                    // SAFETY: it was asked for so, and is given back once.
                    unsafe { Gradual.dealloc(old.0, old.1) };
                    continue;
                }
                let layout = Layout::from_size_align(octets, old.1.align()).unwrap();
                // SAFETY: it was asked for so, and is exchanged once.
                let new = Filled(unsafe { Gradual.realloc(old.0, old.1, octets) }, layout, old.2);
                new.holds(old.2, octets.min(old.1.size()));
                all.push(Filled::new(new.0, layout, fill));
            }
        }
    }

    #[test]
    fn no_two_have_the_same_piece_whoever_frees_it() {
        let ((there, come), (back, returned)) = (channel(), channel());
        let keeper = thread::spawn(move || {
            keep();
            for (mut all, mut seed) in come {
                work(&mut all, &mut seed);
                back.send((all, seed)).unwrap();
            }
            assert!(kept() > 0);
            let_go();
        });
        let mut all = (Vec::new(), 0x9E37_79B9_7F4A_7C15);
        for _ in 0..200 {
            there.send(all).unwrap();
            all = returned.recv().unwrap();
            work(&mut all.0, &mut all.1);
        }
        // SAFETY: each was asked for so, and is given back once.
        all.0.iter().for_each(|piece| unsafe { Gradual.dealloc(piece.0, piece.1) });
        drop(there);
        keeper.join().unwrap();
    }
}
