//! The rules of the house, as tests over the manifests and sources of this checkout. It never becomes part of the
//! product. A rule that fails names file and line, and what to do instead; the tables at the heads of the files are the
//! rules themselves, to be changed together with ARCHITECTURE.md.

#[cfg(test)]
mod cores;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod leftovers;
#[cfg(test)]
mod modules;
#[cfg(test)]
mod sizes;
#[cfg(test)]
mod source;
#[cfg(test)]
mod tree;
#[cfg(test)]
mod unsafety;
