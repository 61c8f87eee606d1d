//! The search: breadth first, so that the first story that goes wrong is one of the shortest.
//!
//! Of a state only its fingerprint is kept, and by which step of which other it was found; a story is told by
//! taking its steps anew.

use std::{collections::HashSet, rc::Rc};

use crate::print::Plain;

/// Something that has states and steps between them.
pub(crate) trait Model {
    type State: Clone;

    fn start(&self) -> Self::State;

    /// Equal for states that may be taken for one.
    fn print(&self, state: &Self::State) -> u128;

    /// Everything that can happen next, in an order that depends on nothing but the state.
    fn steps(&self, state: &Self::State) -> Vec<Step<Self::State>>;
}

/// Something that happens.
pub(crate) struct Step<S> {
    pub(crate) what: Rc<str>,
    /// What comes of it, or which promise it breaks.
    pub(crate) to: Result<S, String>,
}

/// What was explored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    pub(crate) states: usize,
    pub(crate) steps: usize,
}

/// Explores everything. `each` looks at every state once.
///
/// # Errors
/// The shortest story that goes wrong.
pub(crate) fn explore<M: Model>(
    model: &M,
    mut each: impl FnMut(&M::State) -> Result<(), String>,
) -> Result<Size, String> {
    let first = model.start();
    let mut known: HashSet<u128, Plain> = HashSet::default();
    known.insert(model.print(&first));
    let mut found: Vec<(u32, u32)> = vec![(0, 0)];
    let mut level = vec![(0_u32, first)];
    let mut size = Size {
        states: 1,
        steps: 0,
    };
    while !level.is_empty() {
        let mut next = Vec::new();
        for (number, state) in level {
            let tell = |found: &[(u32, u32)], last: &str| story(model, found, number) + "\n" + last;
            each(&state).map_err(|wrong| tell(&found, &wrong))?;
            for (which, step) in model.steps(&state).into_iter().enumerate() {
                size.steps += 1;
                let after = step
                    .to
                    .map_err(|wrong| tell(&found, &format!("{}\n{wrong}", step.what)))?;
                if known.insert(model.print(&after)) {
                    let new = u32::try_from(found.len()).expect("fits into memory");
                    found.push((number, which as u32));
                    next.push((new, after));
                }
            }
        }
        level = next;
    }
    size.states = known.len();
    Ok(size)
}

/// The steps that lead to a state.
fn story<M: Model>(model: &M, found: &[(u32, u32)], mut number: u32) -> String {
    let mut path = Vec::new();
    while number > 0 {
        let (from, step) = found[number as usize];
        path.push(step as usize);
        number = from;
    }
    let mut state = model.start();
    let mut lines = vec!["start".to_owned()];
    for which in path.into_iter().rev() {
        let step = model.steps(&state).swap_remove(which);
        lines.push(step.what.to_string());
        state = step.to.expect("explored before");
    }
    lines.join("\n")
}

/// Explores and says how much there was.
pub(crate) fn nothing_goes_wrong<M: Model>(
    what: &str,
    model: &M,
    each: impl FnMut(&M::State) -> Result<(), String>,
) -> Size {
    match explore(model, each) {
        Ok(size) => {
            println!("{what}: {} states, {} steps", size.states, size.steps);
            size
        }
        Err(story) => panic!("{what}\n{story}"),
    }
}
