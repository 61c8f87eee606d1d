//! The lease table in DynamoDB: against the model, against rows and requests recorded from the Java KCL, and against
//! everything DynamoDB may answer.

mod canned;
mod fixture;
mod recorded;

mod answers;
mod check;
mod golden;
mod golden_writes;
mod random;
mod rows;
mod setup;
mod suite;
