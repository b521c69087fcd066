//! zonefile
