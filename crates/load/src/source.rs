//! Where the questions come from.

use crate::capture::Replay;
use crate::file::QueryFile;
use crate::shape::QUESTION_MAX;
use crate::template::Templates;

pub enum Source {
    File(QueryFile),
    Templates(Templates),
    Capture(Replay),
}

impl Source {
    /// The next question; 0 where there is none.
    #[inline]
    pub fn next(&mut self, out: &mut [u8; QUESTION_MAX]) -> usize {
        match self {
            Source::File(file) => file.next(out),
            Source::Templates(templates) => templates.next(out),
            Source::Capture(replay) => replay.next(out),
        }
    }

    pub fn describe(&self) -> String {
        match self {
            Source::File(file) => format!("file {}", file.path()),
            Source::Templates(templates) => templates.describe(),
            Source::Capture(replay) => format!("capture {}", replay.path()),
        }
    }
}
