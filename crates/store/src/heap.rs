//! What the allocator keeps of freed memory, given back to the system.
//!
//! glibc has a heap for each of some threads, and each stays as large as it has ever been. The large and short-lived
//! things of this server (zones read, images built) are the background threads', so a while after a change most of what
//! it has of its own would be holes.
#![allow(unsafe_code)]

use crate::pieces::{self, Size};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::OnceCell;
use std::mem::transmute;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, Thread};
#[cfg(target_env = "gnu")]
use std::{
    hint::black_box,
    mem, ptr,
    sync::{Condvar, Mutex, OnceLock, PoisonError},
    thread::JoinHandle,
};

/// From this size on memory is taken from the system, and given back when it is freed.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 << 10;

/// A heap whose end is free for so long is cut back to that much beyond what is in use, whenever a piece of `LOOKS_FROM` is freed.
/// `trim` does not see the ends of threads' heaps: with glibc's 128 KiB for both, fifteen heaps of a server at rest would hold 1.5 MiB,
/// which come into their possession one peak after the other.
#[cfg(target_env = "gnu")]
const END_MAX: libc::c_int = 8 << 10;
#[cfg(target_env = "gnu")]
const END_LEFT: libc::c_int = 4 << 10;

/// Heaps at most: more than there are threads. glibc has eight a CPU, and gives the next threads one that is another's already; then
/// one in the background that loses the CPU while it holds the heap's lock keeps one waiting that answers.
#[cfg(target_env = "gnu")]
const HEAPS_MAX: libc::c_int = 512;

/// What the kernel is to take back at once at most.
const AT_ONCE: usize = 8 << 20;
/// No page is larger, and none begins elsewhere.
const PAGE_MAX: usize = 64 << 10;

/// The system's allocator, but for small pieces that a thread keeps (see `pieces`) and for memory that is large: that is emptied before its place is given back. The kernel lets no other thread of the
/// process have more memory while it takes back a place with all that it holds: for 32 ms, of 640 MB that had been an image in the making, and with that
/// thread everybody waited whose updates it was to take.
pub struct Gradual;

// SAFETY: all is what the system's allocator gave out, or a piece of at least that size that this thread freed and kept. Small ones are asked for in their
// `Size`, and given back so.
unsafe impl GlobalAlloc for Gradual {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Size::of(layout) {
            // SAFETY: a size is not zero.
            Some(size) => pieces::take(size).unwrap_or_else(|| unsafe { System.alloc(size.layout()) }),
            // SAFETY: the caller's promise.
            None => unsafe { System.alloc(layout) },
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, or a size, which is not zero.
        unsafe { System.alloc_zeroed(Size::of(layout).map_or(layout, Size::layout)) }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, octets: usize) -> *mut u8 {
        // SAFETY: the caller's promise: it is a layout, of the same border.
        let wanted = unsafe { Layout::from_size_align_unchecked(octets, layout.align()) };
        match (Size::of(layout), Size::of(wanted)) {
            // SAFETY: the caller's promise.
            (None, None) => unsafe { System.realloc(at, layout, octets) },
            (was, is) if was == is => at,
            // SAFETY: the caller's promise; both are as large as what is copied, and one of them is new.
            _ => unsafe {
                let new = self.alloc(wanted);
                if !new.is_null() {
                    new.copy_from_nonoverlapping(at, layout.size().min(octets));
                    self.dealloc(at, layout);
                }
                new
            },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise: nobody looks at it any more; and what is in it is not the allocator's before the second call.
        unsafe {
            match Size::of(layout) {
                Some(size) if pieces::put(at, size) => {}
                Some(size) => System.dealloc(at, size.layout()),
                None => {
                    empty(at, layout.size());
                    System.dealloc(at, layout);
                }
            }
        }
    }
}

/// Gives back what a large piece of memory holds, little by little, but not its place: other threads come between.
///
/// # Safety
/// Nobody else looks at it meanwhile, nor counts on what is in it afterwards: zeros, or a file.
#[inline]
pub(crate) unsafe fn empty(start: *mut u8, len: usize) {
    if len > AT_ONCE {
        // SAFETY: the caller's promise.
        unsafe { empty_large(start, len) }
    }
}

#[cold]
unsafe fn empty_large(start: *mut u8, len: usize) {
    let begin = start.align_offset(PAGE_MAX);
    let end = len - (start.addr() + len) % PAGE_MAX;
    for at in (begin..end).step_by(AT_ONCE) {
        // SAFETY: whole pages within the piece, of which the caller makes his promise (madvise(2)).
        unsafe { libc::madvise(start.add(at).cast(), AT_ONCE.min(end - at), libc::MADV_DONTNEED) };
    }
}

/// To be called before there are other threads. Without it glibc takes a large piece that was freed for a sign that more
/// such will be wanted, and keeps them from then on, up to 64 MiB at the end of each heap.
pub fn keep_little() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers, and sets how later calls of the allocator decide (mallopt(3)).
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, END_MAX);
        libc::mallopt(libc::M_TOP_PAD, END_LEFT);
        libc::mallopt(libc::M_ARENA_MAX, HEAPS_MAX);
    }
}

/// Of each multiple of 16 octets up to this one glibc keeps so many pieces for a thread that has freed them, whatever heap they are
/// of. Each holds a page, or two: after a few peaks there may be 200 KiB of them to a thread, on 500 KiB of pages that nothing else is on.
#[cfg(target_env = "gnu")]
const KEPT_SIZE_MAX: usize = 1024;
#[cfg(target_env = "gnu")]
const KEPT_OF_EACH: usize = 7;

/// A heap looks at its end when a piece of at least this size is freed.
#[cfg(target_env = "gnu")]
const LOOKS_FROM: usize = 64 << 10;

/// Gives back what this thread's stack and heap hold beyond what is in use, where that is not in the midst of the heap, and the same of the
/// thread that makes things apart for it: for a thread that has worked, and has nothing to do.
pub fn let_go() {
    pieces::let_go();
    #[cfg(target_env = "gnu")]
    {
        let_go_of_own();
        MAKER.with(|maker| maker.get().into_iter().flatten().for_each(|maker| maker.carry_out(&mut let_go_of_own)));
    }
}

#[cfg(target_env = "gnu")]
fn let_go_of_own() {
    // First: to be told where it ends takes a piece of the heap.
    let_go_of_stack();
    for _ in 0..2 {
        let_go_of_pieces();
        drop(untouched());
    }
}

/// Of the stack so much is left below where it is now: more than what is yet to be called here has on it.
#[cfg(target_env = "gnu")]
const STACK_LEFT: usize = 4 << 10;

/// What a thread has called once, deep, stays on pages of its stack that it may not come to again. (A thread that ends lets go of them by
/// itself. The main thread's stack ends where it has ever been, and others' memory may lie below that.)
#[cfg(target_env = "gnu")]
fn let_go_of_stack() {
    // SAFETY: none of these takes a pointer.
    let (is_main, page) = unsafe { (libc::gettid() == libc::getpid(), libc::sysconf(libc::_SC_PAGESIZE)) };
    let (Ok(page @ 1..), Some(lowest), false) = (usize::try_from(page), end_of_stack(), is_main) else { return };
    let here = 0_u8;
    let unused = (&raw const here).addr().saturating_sub(STACK_LEFT).saturating_sub(lowest.addr());
    // Of part of a page the system would take the whole.
    let length = unused - unused % page;
    // SAFETY: from its end on, which begins a page, these are pages of this thread's own stack below all that is in use of it: nobody else has
    // a reference to anything there. What is called from here on until the call returns fits into what is left (madvise(2): they read as zeros
    // afterwards). A handler of a signal that comes meanwhile has ended before or begins after.
    unsafe { libc::madvise(lowest, length, libc::MADV_DONTNEED) };
}

/// The lowest address of this thread's stack.
#[cfg(target_env = "gnu")]
fn end_of_stack() -> Option<*mut libc::c_void> {
    let (mut lowest, mut size) = (ptr::null_mut(), 0);
    let mut attributes = mem::MaybeUninit::uninit();
    // SAFETY: the attributes are of this thread, which is running; they are read only where they have been set, and freed then
    // (pthread_getattr_np(3), pthread_attr_getstack(3)).
    let is_known = unsafe {
        libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) == 0 && {
            let known = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut size);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            known == 0
        }
    };
    is_known.then_some(lowest)
}

/// Takes no memory itself. Freed, it has this thread's heap join what is free in it, and look at its end.
#[cfg(target_env = "gnu")]
fn untouched() -> Vec<u8> {
    black_box(Vec::with_capacity(LOOKS_FROM))
}

/// Small pieces that a thread has freed are kept for it: glibc gives them back to their heaps when a thread ends. So all are taken,
/// and freed by a thread that ends. Where pieces of a size are free in the heap, more of them are taken from there to be kept: done
/// again, when neighbours have been joined, it is only such as lie between others that are in use. (Should another glibc keep more,
/// the rest stays as it was.)
#[cfg(target_env = "gnu")]
fn let_go_of_pieces() {
    // First: what it takes to start it would lie behind all the pieces.
    let Some(sweeper) = sweeper() else { return };
    let mut pieces = pieces::<KEPT_OF_EACH>(KEPT_SIZE_MAX);
    // Where no thread can be started this one frees them, and has them again.
    sweeper.carry_out(&mut || {
        let pieces = mem::take(&mut pieces);
        let _ = thread::Builder::new().name("let go".to_string()).spawn(move || drop(pieces)).map(JoinHandle::join);
    });
}

/// Starts the threads that free what others have let go of. What it takes to start a thread is kept for who has started it, too, in
/// whatever hole it found, and would hold that page: ten pages of a server's at rest, now here, now there. So it is one that makes nothing else.
/// It has the priority of who lets go first.
#[cfg(target_env = "gnu")]
fn sweeper() -> Option<&'static Helper> {
    static SWEEPER: OnceLock<Option<Helper>> = OnceLock::new();
    SWEEPER.get_or_init(|| Helper::start("sweeper")).as_ref()
}

/// So many of each size up to this one.
#[cfg(target_env = "gnu")]
fn pieces<const OF_EACH: usize>(size_max: usize) -> Vec<Vec<u8>> {
    let sizes = (16..=size_max).step_by(16).flat_map(|size| [size; OF_EACH]);
    // At once as large as it will be: what it had before would be kept, too.
    let mut pieces = Vec::with_capacity(size_max / 16 * OF_EACH);
    // A piece has 8 octets more than its size says.
    pieces.extend(sizes.map(|size| black_box(Vec::with_capacity(size + 8))));
    pieces
}

/// What `make` makes, made by a thread that does nothing else. For what a thread keeps that makes and frees much else: among that, each
/// small piece would soon be alone on its page. Each thread that has things made has one for it, of its own priority, as long as it lives:
/// another one each time would have a heap that others have left, now this, now that, and what stays would lie in as many of them.
pub fn apart<T: Send>(make: impl Fn() -> T + Sync) -> T {
    let mut made = None;
    MAKER.with(|maker| {
        if let Some(maker) = maker.get_or_init(|| Helper::start("apart")) {
            maker.carry_out(&mut || made = Some(catch_unwind(AssertUnwindSafe(&make))));
        }
    });
    match made {
        Some(Ok(made)) => made,
        Some(Err(panic)) => resume_unwind(panic),
        // Where no thread can be started.
        None => make(),
    }
}

thread_local! {
    /// This thread's, from the first thing on that it has made apart.
    static MAKER: OnceCell<Option<Helper>> = const { OnceCell::new() };
}

/// More than there are threads that ask: who had to wait for room would be given memory to wait in, and keep it.
const ORDERS_MAX: usize = 32;

/// A thread that does what others ask it for, one thing after another.
struct Helper {
    orders: SyncSender<Order>,
}

struct Order {
    work: &'static mut (dyn FnMut() + Send),
    is_done: &'static AtomicBool,
    asked_by: Thread,
}

impl Helper {
    fn start(name: &str) -> Option<Helper> {
        let (orders, asked) = sync_channel::<Order>(ORDERS_MAX);
        let run = move || {
            for Order { work, is_done, asked_by } in asked {
                work();
                is_done.store(true, Release);
                asked_by.unpark();
            }
        };
        thread::Builder::new().name(name.to_string()).spawn(run).ok().map(|_| Helper { orders })
    }

    /// `work` must not panic. Whoever asks takes no memory for it, and waits for nobody else who does.
    fn carry_out(&self, work: &mut (dyn FnMut() + Send)) {
        let is_done = AtomicBool::new(false);
        // SAFETY: the other thread has both references from `send` on until it has set `is_done`, after which it touches neither. This
        // function does not return before that, and meanwhile does not touch `work`. Where the other thread has ended, `send` gives them back.
        let (work, flag) = unsafe {
            (
                transmute::<&mut (dyn FnMut() + Send), &'static mut (dyn FnMut() + Send)>(work),
                transmute::<&AtomicBool, &'static AtomicBool>(&is_done),
            )
        };
        if self.orders.send(Order { work, is_done: flag, asked_by: thread::current() }).is_ok() {
            while !is_done.load(Acquire) {
                thread::park();
            }
        }
    }
}

/// Gives back what is free in the midst of heaps, and at the ends of those that threads have left. Takes each heap's lock in turn: not
/// for a thread that others could keep from running meanwhile.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers, and may be called by any thread at any time (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
    #[cfg(target_env = "gnu")]
    look_at_ends_left();
}

/// Threads that live at once and do not live long: readers of zones, peers of the control socket, transfers.
/// With fewer heaps left than this, so many more are there from then on, of a page each.
#[cfg(target_env = "gnu")]
const LEFT_AT_ONCE: usize = 6;

/// Of those that look. glibc keeps stacks for threads to come that ask for no more: with stacks as large as theirs, threads that
/// touch more of them would have one of these now, one of those then.
#[cfg(target_env = "gnu")]
const LOOK_STACK: usize = 64 << 10;

/// A thread that ends leaves its heap as it is, and what it made may be freed there by others long after: some 60 KiB at the end of
/// each. The next thread may have that heap, and only a thread can look at its heap's end: so as many are started at once, and none ends
/// before each has a heap.
#[cfg(target_env = "gnu")]
fn look_at_ends_left() {
    // How many have one, and whether they may end.
    let (state, change) = (Mutex::new((0, false)), Condvar::new());
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    thread::scope(|scope| {
        let look = || {
            let piece = untouched();
            let mut now = lock();
            now.0 += 1;
            change.notify_all();
            drop(change.wait_while(now, |now| !now.1));
            drop(piece);
        };
        let thread = || thread::Builder::new().name("look".to_string()).stack_size(LOOK_STACK);
        let started = (0..LEFT_AT_ONCE).take_while(|_| thread().spawn_scoped(scope, look).is_ok()).count();
        let now = change.wait_while(lock(), |now| now.0 < started);
        now.unwrap_or_else(PoisonError::into_inner).1 = true;
        change.notify_all();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_emptied_is_whole_pages_of_the_piece() {
        for (from, len) in [(5, 3 * AT_ONCE - 10), (0, 2 * AT_ONCE), (PAGE_MAX, AT_ONCE + 1), (1, AT_ONCE), (0, 0)] {
            let mut all = vec![1_u8; 3 * AT_ONCE];
            // SAFETY: within the piece, which is this function's alone, and may be anything afterwards.
            unsafe { empty(all.as_mut_ptr().add(from), len) };
            let outside = all[..from].iter().chain(&all[from + len..]);
            assert!(outside.into_iter().all(|octet| *octet == 1), "{from} {len}");
            let left = all.iter().filter(|octet| **octet == 1).count();
            let is_large = len > AT_ONCE;
            assert!(is_large == (left < all.len()) && (!is_large || left <= all.len() - len + 2 * PAGE_MAX), "{left}");
        }
    }

    #[test]
    fn what_is_freed_little_by_little_can_be_had_again() {
        let layout = Layout::from_size_align(2 * AT_ONCE + 77, 16).unwrap();
        for _ in 0..3 {
            // SAFETY: of this size, written within it, and given back once.
            unsafe {
                let at = Gradual.alloc(layout);
                assert!(!at.is_null());
                at.write_bytes(7, layout.size());
                Gradual.dealloc(at, layout);
            }
        }
    }
}
