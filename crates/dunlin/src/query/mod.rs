//! `dunlin query`: one question to one server.

mod ask;
mod options;
mod show;

use crate::cli::Query;
use crate::exit::{Exit, could_not, not_built};
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
        Err(why) => {
            println!(";; {}", why.replace('\n', "\n;; "));
            return Exit::No;
        }
    };
    let message = match Message::parse(&answer.octets) {
        Ok(message) => message,
        Err(malformed) => {
            println!(";; the answer of {} is malformed: {malformed}", answer.server);
            return Exit::No;
        }
    };
    match ask.show.form {
        Form::Short => print!("{}", show::short(&message)),
        Form::Json => print!("{}", show::json(&answer, &message)),
        Form::Full => print!("{}", show::full(&ask, &args.words, &answer, &message)),
    }
    Exit::Done
}
