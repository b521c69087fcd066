//! `dunlin query`: one question to one server.

mod ask;
mod options;
mod show;

use crate::cli::Query;
use crate::exit::{Exit, could_not, not_built, say};
use crate::message::Message;
use options::{Form, Wrong};

pub fn run(args: &Query) -> Exit {
    let ask = match options::read(&args.words) {
        Ok(ask) => ask,
        Err(Wrong::Word(why)) => return could_not(why),
        Err(Wrong::NotBuilt(what)) => return not_built(&what),
    };
    let servers = match ask::servers(&ask) {
        Ok(servers) => servers,
        Err(why) => return could_not(why),
    };
    let answer = match ask::exchange(&ask, &ask::query(&ask), &servers) {
        Ok(answer) => answer,
        Err(why) => return say(format_args!(";; {}\n", why.replace('\n', "\n;; ")), Exit::No),
    };
    let message = match Message::parse(&answer.octets) {
        Ok(message) => message,
        Err(malformed) => {
            return say(format_args!(";; the answer of {} is malformed: {malformed}\n", answer.server), Exit::No);
        }
    };
    let text = match ask.show.form {
        Form::Short => show::short(&message),
        Form::Json => show::json(&answer, &message),
        Form::Full => show::full(&ask, &args.words, &answer, &message),
    };
    say(text, Exit::Done)
}
