//! The known weak spots of such a worker (docs/SEMANTICS.md lists them by number), one case each, where a single case
//! says more than a random history: which rows are made and kept, what a holder believes, what a fleet does.

mod consumers;
mod driver;
mod fleet;
mod holder;
mod outdated;
mod rows;
