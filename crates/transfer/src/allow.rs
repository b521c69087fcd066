//! Who may update what: `allow-update`, a list of rules. A rule is words, and all of them must hold; a change is allowed
//! if one rule allows it.
//!
//! ```text
//! "key:ddns"                                              any name and type of the zone
//! "key:acme name:_acme-challenge.www.example.com type:TXT"  one name, one type
//! "key:dhcp below:dyn.example.com type:A,AAAA,TXT"        a name and all below it
//! ```
//! Every rule names a key: the source address of a datagram proves nothing.

use wire::name::is_at_or_below;
use wire::{Name, Rtype, rtype};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    key: Name,
    /// Any of these; empty: any name.
    scopes: Vec<Scope>,
    /// Any of these; empty: any type.
    types: Vec<Rtype>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scope {
    Name(Name),
    Below(Name),
}

/// What is wrong with a rule, and what to write instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadRule {
    pub what: String,
    pub instead: String,
}

fn bad<T>(what: String, instead: impl Into<String>) -> Result<T, BadRule> {
    Err(BadRule { what, instead: instead.into() })
}

impl Rule {
    pub fn from_text(text: &str) -> Result<Rule, BadRule> {
        let (mut key, mut scopes, mut types) = (None, Vec::new(), Vec::new());
        for word in text.split_whitespace() {
            match word.split_once(':') {
                Some(("key", name)) if key.is_none() => key = Some(absolute(name)?),
                Some(("key", _)) => return bad(format!("`{text}` names two keys"), "write a rule for each key"),
                Some(("name", name)) => scopes.push(Scope::Name(absolute(name)?)),
                Some(("below", "@")) => {
                    return bad(
                        "`@` is the zone in a zone file only".to_string(),
                        "leave `below:@` out: without it the rule is for all of the zone",
                    );
                }
                Some(("below", name)) => scopes.push(Scope::Below(absolute(name)?)),
                Some(("type", list)) => types.append(&mut list_of_types(list)?),
                _ => {
                    return bad(
                        format!("`{word}` is no word of a rule"),
                        "write key:NAME, name:NAME, below:NAME or type:TYPE,TYPE",
                    );
                }
            }
        }
        let Some(key) = key else {
            return bad(format!("`{text}` names no key"), "write \"key:NAME\" with the name of a [[key]]");
        };
        Ok(Rule { key, scopes, types })
    }

    pub fn key(&self) -> &Name {
        &self.key
    }

    /// What is wrong with it if all the names it is about are outside this zone: no update of the zone is ever of these.
    pub fn outside(&self, apex: &[u8]) -> Option<BadRule> {
        let is_outside = |scope: &Scope| match scope {
            Scope::Name(name) => !is_at_or_below(name.bytes(), apex),
            Scope::Below(name) => !is_at_or_below(name.bytes(), apex) && !is_at_or_below(apex, name.bytes()),
        };
        // One list may be written for many zones.
        let scope = self.scopes.first().filter(|_| self.scopes.iter().all(is_outside))?;
        let (word, name) = match scope {
            Scope::Name(name) => ("name", name),
            Scope::Below(name) => ("below", name),
        };
        let what = format!("{name} is no name of this zone: names are written in full");
        Some(BadRule { what, instead: format!("write {word}:{}", within(name, apex)) })
    }

    fn allows(&self, key: &[u8], owner: &[u8], rtype: Rtype) -> bool {
        let covers = |scope: &Scope| match scope {
            Scope::Name(name) => owner.eq_ignore_ascii_case(name.bytes()),
            Scope::Below(name) => is_at_or_below(owner, name.bytes()),
        };
        self.key.bytes().eq_ignore_ascii_case(key)
            && (self.scopes.is_empty() || self.scopes.iter().any(covers))
            && (self.types.is_empty() || self.types.contains(&rtype))
    }
}

/// A name as it is meant, probably: as in the zone's file.
fn within(name: &Name, apex: &[u8]) -> String {
    let zone = Name::from_wire(apex).unwrap_or(Name::ROOT).to_string();
    if *name == Name::ROOT { zone } else { format!("{name}{}", zone.trim_end_matches('.')) }
}

fn absolute(name: &str) -> Result<Name, BadRule> {
    if name.contains(',') {
        let instead =
            "write a word for each, as in name:a.example.com name:b.example.com; a comma in a name is `\\044`";
        return bad(format!("`{name}` is one name, with a comma in it"), instead);
    }
    Name::from_text(name.as_bytes(), Some(&Name::ROOT))
        .or_else(|e| bad(format!("`{name}` is no name: {}", e.why), "write a domain name, such as www.example.com"))
}

fn list_of_types(list: &str) -> Result<Vec<Rtype>, BadRule> {
    let one = |word: &str| match zonefile::rtypes::from_mnemonic(word.as_bytes()) {
        Some(found) if !rtype::is_meta(found) => Ok(found),
        _ => bad(format!("`{word}` is no type of records"), "write types as in a zone file, such as A,AAAA,TXT"),
    };
    list.split(',').map(one).collect()
}

/// The rules of a zone, as many as are configured.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rules(pub Vec<Rule>);

impl Rules {
    /// Whether the key may change anything at all.
    pub fn knows(&self, key: &[u8]) -> bool {
        self.0.iter().any(|rule| rule.key.bytes().eq_ignore_ascii_case(key))
    }

    pub fn allow(&self, key: &[u8], owner: &[u8], rtype: Rtype) -> bool {
        self.0.iter().any(|rule| rule.allows(key, owner, rtype))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::rtype::{A, AAAA, TXT};

    fn name(text: &str) -> Name {
        Name::from_text(text.as_bytes(), None).unwrap()
    }

    #[test]
    fn a_rule_holds_if_all_its_words_do() {
        let rules = |texts: &[&str]| Rules(texts.iter().map(|t| Rule::from_text(t).unwrap()).collect());
        let allows = |rules: &Rules, owner: &str, rtype| rules.allow(name("K.").bytes(), name(owner).bytes(), rtype);
        let all = rules(&["key:k"]);
        assert!(allows(&all, "a.z.", A) && all.knows(name("k.").bytes()) && !all.knows(name("x.").bytes()));
        assert!(!rules(&["key:other"]).allow(name("k.").bytes(), name("a.z.").bytes(), A));
        let narrow = rules(&["key:k name:A.z type:TXT", "key:k below:dyn.z. type:A,aaaa"]);
        for (owner, rtype, allowed) in [
            ("a.z.", TXT, true),
            ("a.z.", A, false),
            ("x.a.z.", TXT, false),
            ("dyn.z.", A, true),
            ("x.DYN.z.", AAAA, true),
            ("x.dyn.z.", TXT, false),
            ("xdyn.z.", A, false),
        ] {
            assert_eq!(allows(&narrow, owner, rtype), allowed, "{owner} {rtype}");
        }
    }

    #[test]
    fn a_rule_of_names_outside_the_zone_is_told() {
        for (text, instead) in [
            ("key:k", None),
            ("key:k name:z name:www.Z. below:dyn.z", None),
            ("key:k below:.", None),
            ("key:k name:www", Some("write name:www.sub.z")),
            ("key:k name:www.z name:www.other", None),
            ("key:k name:@", Some("write name:sub.z.")),
            ("key:k name:www name:www.z", Some("write name:www.sub.z")),
            ("key:k below:dyn type:A", Some("write below:dyn.sub.z")),
        ] {
            let rule = Rule::from_text(text).unwrap();
            let apex = if instead.is_some() { "sub.z." } else { "z." };
            let told = rule.outside(name(apex).bytes()).map(|bad| bad.instead);
            assert_eq!(told.as_deref(), instead, "{text}");
        }
        assert_eq!(
            Rule::from_text("key:k below:z").unwrap().outside(name("sub.z.").bytes()),
            None,
            "it holds for all of it"
        );
        assert_eq!(Rule::from_text("key:k name:www").unwrap().outside(name(".").bytes()), None);
    }

    #[test]
    fn what_is_no_rule_is_told_with_what_to_write() {
        for (text, what) in [
            ("", "names no key"),
            ("name:a.z", "names no key"),
            ("key:a key:b", "two keys"),
            ("192.0.2.1", "is no word of a rule"),
            ("key:a..b", "is no name"),
            ("key:a name:a.z,b.z", "is one name, with a comma in it"),
            ("key:a below:@", "is the zone in a zone file only"),
            ("key:a type:BOGUS", "is no type"),
            ("key:a type:ANY", "is no type"),
        ] {
            let e = Rule::from_text(text).unwrap_err();
            assert!(e.what.contains(what) && !e.instead.is_empty(), "{text}: {e:?}");
        }
    }
}
