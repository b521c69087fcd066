//! Judges the answers of several servers to one query, and gathers the judgements of a run by what differs.
//!
//! The peers agree, or every difference between them falls into classes; anything else is a fault of this crate or a new class to be
//! documented. Dunlin must answer as the peers do where they agree, and where they differ it must, class by class, do what one does.

use crate::class::{Aspect, CLASSES, Class, FREE, Scene};
use crate::fleet::Kind;
use crate::message::{Message, Record, Reply, flags_text, rcode_text};
use crate::query::Query;
use crate::rtype::text;
use std::collections::BTreeMap;
use std::fmt::Write as _;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    Agree,
    /// Different, and every difference belongs to these classes.
    Explained(Vec<&'static str>),
    /// The peers differ in a way that no class names.
    Unlisted,
    /// Dunlin does what no peer does; the class says in what, if it is one.
    Alone(Option<&'static str>),
}

type Answers<'a> = [(Kind, &'a Reply)];

pub fn judge(scene: Scene, answers: &Answers) -> Finding {
    judge_by(CLASSES, scene, answers)
}

fn judge_by(all: &[Class], scene: Scene, answers: &Answers) -> Finding {
    if answers.windows(2).all(|w| w[0].1 == w[1].1) {
        return Finding::Agree;
    }
    let free: Vec<(Kind, Reply)> = answers.iter().map(|(kind, reply)| (*kind, erase_free(scene, reply))).collect();
    let peers: Vec<&Reply> = free.iter().filter(|a| a.0 != Kind::Dunlin).map(|a| &a.1).collect();
    let ours = free.iter().find(|a| a.0 == Kind::Dunlin).map(|a| &a.1);
    if same(&peers) {
        return if ours.is_none_or(|o| o == peers[0]) { Finding::Agree } else { Finding::Alone(None) };
    }
    let classes: Vec<&Class> = all.iter().filter(|c| free.iter().any(|a| c.touches(scene, &a.1))).collect();
    if !same(&erase(&classes, scene, &peers).iter().collect::<Vec<_>>()) {
        return Finding::Unlisted;
    }
    match ours.and_then(|ours| alone_in(&classes, scene, ours, &peers)) {
        Some(aspect) => Finding::Alone(aspect),
        None => Finding::Explained(active(&classes, scene, &peers)),
    }
}

/// The class in which our message is no peer's. Some(None): it is no class's.
///
/// Where one class concerns the whole message, ours must be a peer's but for the parts that other classes are about. Where none
/// does, it must be some peer's in each aspect by itself. Where two meet, each may be another peer's, and what is left must agree.
fn alone_in(classes: &[&Class], scene: Scene, ours: &Reply, peers: &[&Reply]) -> Option<Option<&'static str>> {
    let is_alone = |erased: &[&Class]| !erase(erased, scene, peers).contains(&erase(erased, scene, &[ours])[0]);
    let (whole, parts): (Vec<&Class>, Vec<&Class>) = classes.iter().partition(|c| c.aspect == Aspect::Whole);
    match whole[..] {
        [] => {
            let others = |kept: &&&Class| parts.iter().copied().filter(|c| c.aspect != kept.aspect).collect::<Vec<_>>();
            let alone = parts.iter().find(|c| is_alone(&others(c))).map(|c| Some(c.name));
            alone.or_else(|| is_alone(&parts).then_some(None))
        }
        [one] => is_alone(&parts).then_some(Some(one.name)),
        _ => is_alone(classes).then_some(None),
    }
}

fn erase_free(scene: Scene, reply: &Reply) -> Reply {
    let mut reply = reply.clone();
    FREE.iter().for_each(|c| c.apply(scene, &mut reply));
    reply
}

fn same<T: PartialEq>(all: &[&T]) -> bool {
    all.windows(2).all(|w| w[0] == w[1])
}

fn erase(classes: &[&Class], scene: Scene, replies: &[&Reply]) -> Vec<Reply> {
    let erase = |reply: &&Reply| {
        let mut reply = (*reply).clone();
        classes.iter().for_each(|c| c.apply(scene, &mut reply));
        reply
    };
    replies.iter().map(erase).collect()
}

/// The classes without which the difference would not be explained.
fn active(classes: &[&Class], scene: Scene, peers: &[&Reply]) -> Vec<&'static str> {
    let is_needed = |c: &&&Class| {
        let others: Vec<&Class> = classes.iter().copied().filter(|o| o.name != c.name).collect();
        !same(&erase(&others, scene, peers).iter().collect::<Vec<_>>())
    };
    classes.iter().filter(is_needed).map(|c| c.name).collect()
}

struct Group {
    count: usize,
    samples: Vec<String>,
}

/// What a run has found, by what differs.
#[derive(Default)]
pub struct Report {
    pub asked: usize,
    pub explained: BTreeMap<&'static str, usize>,
    /// The first difference of each class.
    pub examples: BTreeMap<&'static str, String>,
    faults: BTreeMap<String, Group>,
}

const SAMPLES: usize = 2;

impl Report {
    pub fn add(&mut self, context: &str, scene: Scene, answers: &Answers) {
        self.asked += 1;
        match judge(scene, answers) {
            Finding::Agree => {}
            Finding::Explained(classes) => {
                for class in classes {
                    *self.explained.entry(class).or_default() += 1;
                    self.examples.entry(class).or_insert_with(|| sample(context, scene.query, answers));
                }
            }
            fault => self.fault(fault, context, scene.query, answers),
        }
    }

    fn fault(&mut self, fault: Finding, context: &str, query: &Query, answers: &Answers) {
        let key = signature(&fault, query, answers);
        let group = self.faults.entry(key).or_insert(Group { count: 0, samples: Vec::new() });
        group.count += 1;
        if group.samples.len() < SAMPLES {
            group.samples.push(sample(context, query, answers));
        }
    }

    /// A fault that is no difference of messages.
    pub fn note(&mut self, key: &str, sample: String) {
        let group = self.faults.entry(key.to_string()).or_insert(Group { count: 0, samples: Vec::new() });
        group.count += 1;
        group.samples.push(sample);
        group.samples.truncate(SAMPLES);
    }

    pub fn faults(&self) -> usize {
        self.faults.len()
    }

    pub fn text(&self) -> String {
        let mut out =
            format!("{} queries; explained: {:?}; kinds of fault: {}\n", self.asked, self.explained, self.faults.len());
        let mut groups: Vec<_> = self.faults.iter().collect();
        groups.sort_by_key(|(_, g)| std::cmp::Reverse(g.count));
        for (key, group) in groups {
            let _ = writeln!(out, "\n== {} x {key}", group.count);
            group.samples.iter().for_each(|s| out.push_str(s));
        }
        out
    }

    /// Fails the test if anything was found that no class explains.
    pub fn settle(self) {
        println!("{}", self.text());
        assert!(
            self.faults.is_empty(),
            "{} kinds of difference that docs/ambiguities.md does not list; see above",
            self.faults.len()
        );
    }
}

fn sample(context: &str, query: &Query, answers: &Answers) -> String {
    let mut out = format!("  {query}   in {context}\n");
    for (kinds, reply) in parties(answers) {
        let _ = writeln!(out, "    {}: {reply}", names(&kinds));
    }
    out
}

fn parties<'a>(answers: &Answers<'a>) -> Vec<(Vec<Kind>, &'a Reply)> {
    let mut parties: Vec<(Vec<Kind>, &Reply)> = Vec::new();
    for &(kind, reply) in answers {
        match parties.iter_mut().find(|(_, r)| *r == reply) {
            Some((kinds, _)) => kinds.push(kind),
            None => parties.push((vec![kind], reply)),
        }
    }
    parties
}

fn names(kinds: &[Kind]) -> String {
    kinds.iter().map(|k| k.text()).collect::<Vec<_>>().join(" ")
}

/// What differs between whom, without names and numbers of the zone: differences with one cause fall together.
fn signature(fault: &Finding, query: &Query, answers: &Answers) -> String {
    let parties = parties(answers);
    let mut out = format!("{fault:?} [{}]{}", query.kind, if query.dnssec_ok { " DO" } else { "" });
    for (kinds, reply) in &parties[1..] {
        let _ = write!(out, " | {} against {}: {}", names(kinds), names(&parties[0].0), aspects(reply, parties[0].1));
    }
    out
}

fn aspects(ours: &Reply, theirs: &Reply) -> String {
    let (Some(a), Some(b)) = (ours.message(), theirs.message()) else { return "one is no message".to_string() };
    let mut out = Vec::new();
    if a.rcode != b.rcode {
        out.push(format!("{} for {}", rcode_text(a.rcode), rcode_text(b.rcode)));
    }
    if a.flags != b.flags {
        out.push(format!("[{}] for [{}]", flags_text(a.flags), flags_text(b.flags)));
    }
    if (&a.question, a.questions, a.opcode) != (&b.question, b.questions, b.opcode) {
        out.push("question or opcode".to_string());
    }
    out.extend(sections(a, b));
    if a.edns != b.edns {
        out.push("EDNS".to_string());
    }
    out.join(", ")
}

fn sections(a: &Message, b: &Message) -> Vec<String> {
    let pairs = a.sections().into_iter().zip(b.sections());
    pairs
        .filter(|(a, b)| a.1 != b.1)
        .map(|((name, a), (_, b))| format!("{name}{}{}", surplus("+", a, b), surplus("-", b, a)))
        .collect()
}

fn surplus(sign: &str, a: &[Record], b: &[Record]) -> String {
    let mut types: Vec<String> = a.iter().filter(|r| !b.contains(r)).map(|r| format!(" {sign}{}", kind(r))).collect();
    types.sort();
    types.dedup();
    types.concat()
}

fn kind(r: &Record) -> String {
    r.covers().map_or_else(|| text(r.rtype), |covered| format!("RRSIG({})", text(covered)))
}
