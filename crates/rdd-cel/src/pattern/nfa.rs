//! Runs patterns that are too large for the `regex` crate, as Go does: a program over characters whose threads advance through
//! the text in parallel. A class is one instruction however many characters it has, so programs stay as small as Go's.

use std::borrow::Cow;

use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

/// How many instructions a program may have, as in Go.
pub(super) const PROGRAM_MAX: usize = (128 << 20) / 40;
/// How many steps one search may take. Go has no such limit; there, a search takes up to the product of text and program size.
pub const STEPS_MAX: u64 = 1 << 27;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Program {
    steps: Vec<Step>,
    classes: Vec<Box<[(char, char)]>>,
    /// How many steps a search may take; tests lower it.
    steps_max: u64,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Character(char),
    Class(u32),
    Look(Look),
    /// Continues at both instructions; the first is preferred.
    Split(u32, u32),
    Match,
}

/// The pattern needs more instructions than Go allows.
pub(super) struct TooLarge;

impl Program {
    pub(super) fn compile(hir: &Hir) -> Result<Self, TooLarge> {
        let mut program = Program { steps: Vec::new(), classes: Vec::new(), steps_max: STEPS_MAX };
        program.emit(hir)?;
        program.push(Step::Match)?;
        Ok(program)
    }

    fn push(&mut self, step: Step) -> Result<(), TooLarge> {
        if self.steps.len() >= PROGRAM_MAX {
            return Err(TooLarge);
        }
        self.steps.push(step);
        Ok(())
    }

    fn next(&self) -> u32 {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX)
    }

    /// Appends the instructions that match `hir` and then continue with the next instruction.
    fn emit(&mut self, hir: &Hir) -> Result<(), TooLarge> {
        match hir.kind() {
            HirKind::Empty => Ok(()),
            HirKind::Literal(literal) => {
                String::from_utf8_lossy(&literal.0).chars().try_for_each(|one| self.push(Step::Character(one)))
            }
            HirKind::Class(class) => {
                let class_index = u32::try_from(self.classes.len()).unwrap_or(u32::MAX);
                self.classes.push(ranges(class));
                self.push(Step::Class(class_index))
            }
            HirKind::Look(look) => self.push(Step::Look(*look)),
            HirKind::Repetition(repetition) => self.repeat(repetition),
            HirKind::Capture(capture) => self.emit(&capture.sub),
            HirKind::Concat(parts) => parts.iter().try_for_each(|part| self.emit(part)),
            HirKind::Alternation(parts) => self.alternate(parts),
        }
    }

    /// Appends alternatives, of which earlier ones are preferred.
    fn alternate(&mut self, parts: &[Hir]) -> Result<(), TooLarge> {
        let mut exits = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let is_last = index + 1 == parts.len();
            // Where to jump is known only after the alternative was appended.
            let fork = self.steps.len();
            if !is_last {
                self.push(Step::Split(self.next() + 1, 0))?;
            }
            self.emit(part)?;
            if !is_last {
                exits.push(self.steps.len());
                self.push(Step::Split(0, 0))?;
                self.steps[fork] = Step::Split(u32::try_from(fork).unwrap_or(u32::MAX) + 1, self.next());
            }
        }
        let end = self.next();
        exits.into_iter().for_each(|exit| self.steps[exit] = Step::Split(end, end));
        Ok(())
    }

    fn repeat(&mut self, repetition: &Repetition) -> Result<(), TooLarge> {
        let Repetition { min, max, greedy, sub } = repetition;
        if *max == Some(0) {
            return Ok(());
        }
        let mut forks = Vec::new();
        let is_optional = *min == 0;
        if is_optional {
            forks.push(self.steps.len());
            self.push(Step::Split(0, 0))?;
        }
        let start = self.steps.len();
        self.emit(sub)?;
        let body = start..self.steps.len();
        // The first copy is the one that was just appended.
        for _ in 1..*min {
            self.copy(body.clone())?;
        }
        match max {
            None => {
                // Jumps back to the last copy.
                let last = u32::try_from(self.steps.len() - body.len()).unwrap_or(u32::MAX);
                let out = self.next() + 1;
                self.push(fork(*greedy, last, out))?;
            }
            Some(max) => {
                for _ in (*min).max(1)..*max {
                    forks.push(self.steps.len());
                    self.push(Step::Split(0, 0))?;
                    self.copy(body.clone())?;
                }
            }
        }
        let out = self.next();
        for at in forks {
            self.steps[at] = fork(*greedy, u32::try_from(at).unwrap_or(u32::MAX) + 1, out);
        }
        Ok(())
    }

    /// Appends a copy of instructions whose jumps stay within them or lead to the instruction after them.
    fn copy(&mut self, body: std::ops::Range<usize>) -> Result<(), TooLarge> {
        if self.steps.len() + body.len() > PROGRAM_MAX {
            return Err(TooLarge);
        }
        let shift = u32::try_from(self.steps.len() - body.start).unwrap_or(u32::MAX);
        for at in body {
            self.steps.push(match self.steps[at] {
                Step::Split(first, second) => Step::Split(first + shift, second + shift),
                step => step,
            });
        }
        Ok(())
    }

    /// Whether the text contains a match.
    pub(super) fn is_match(&self, text: &str) -> Result<bool, Cow<'static, str>> {
        self.search(text, 0, true).map(|found| found.is_some())
    }

    /// As `is_match`, with the steps in `steps_left`, which it reduces. `None` when they do not suffice; then `steps_left`
    /// is 0.
    pub(super) fn is_match_within(&self, text: &str, steps_left: &mut u64) -> Option<bool> {
        let mut search = Search { program: self, text, steps_left: *steps_left, stack: Vec::new() };
        let found = search.run(0, true);
        *steps_left = if found.is_ok() { search.steps_left } else { 0 };
        found.ok().map(|found| found.is_some())
    }

    /// About how much memory the program uses.
    pub(super) fn size_bytes(&self) -> usize {
        let ranges: usize = self.classes.iter().map(|class| size_of_val(&**class)).sum();
        ranges + size_of_val(&*self.steps)
    }

    /// Returns the first match that begins at `from` or later. Of several that begin at one place, the preferred one counts.
    pub(super) fn find_at(&self, text: &str, from: usize) -> Result<Option<(usize, usize)>, Cow<'static, str>> {
        self.search(text, from, false)
    }

    fn search(&self, text: &str, from: usize, any_will_do: bool) -> Result<Option<(usize, usize)>, Cow<'static, str>> {
        let mut search = Search { program: self, text, steps_left: self.steps_max, stack: Vec::new() };
        let found = search.run(from, any_will_do);
        found.map_err(|OutOfSteps| format!("the match takes more than {} steps", self.steps_max).into())
    }
}

/// A fork that enters a repetition or passes it; a greedy one prefers to enter.
fn fork(greedy: bool, into: u32, past: u32) -> Step {
    if greedy { Step::Split(into, past) } else { Step::Split(past, into) }
}
fn ranges(class: &Class) -> Box<[(char, char)]> {
    match class {
        Class::Unicode(class) => class.iter().map(|range| (range.start(), range.end())).collect(),
        Class::Bytes(class) => class.iter().map(|range| (char::from(range.start()), char::from(range.end()))).collect(),
    }
}

fn is_in(ranges: &[(char, char)], character: char) -> bool {
    let at = ranges.partition_point(|(_, last)| *last < character);
    ranges.get(at).is_some_and(|(first, _)| *first <= character)
}

/// Threads in order of preference, at most one at each instruction.
struct Threads {
    list: Vec<(u32, usize)>,
    /// For each instruction, its possible index in `passed`: a sparse set, which is cleared without touching this.
    places: Vec<u32>,
    /// The instructions that were reached at the current position.
    passed: Vec<u32>,
}

impl Threads {
    fn new(steps: usize) -> Self {
        Self { list: Vec::new(), places: vec![0; steps], passed: Vec::new() }
    }

    /// Records that an instruction is reached. Returns false if it already was.
    fn visit(&mut self, step: u32) -> bool {
        let place = self.places[step as usize] as usize;
        if self.passed.get(place) == Some(&step) {
            return false;
        }
        self.places[step as usize] = u32::try_from(self.passed.len()).unwrap_or(u32::MAX);
        self.passed.push(step);
        true
    }

    fn clear(&mut self) {
        self.list.clear();
        self.passed.clear();
    }
}

struct Search<'a> {
    program: &'a Program,
    text: &'a str,
    steps_left: u64,
    stack: Vec<u32>,
}

/// The search needs more steps than it has left.
struct OutOfSteps;

impl Search<'_> {
    /// Returns the first match that begins at `from` or later, or, with `any_will_do`, any match.
    fn run(&mut self, from: usize, any_will_do: bool) -> Result<Option<(usize, usize)>, OutOfSteps> {
        let steps = self.program.steps.len();
        let (mut now, mut next) = (Threads::new(steps), Threads::new(steps));
        let mut found: Option<(usize, usize)> = None;
        let mut at = from;
        loop {
            // Once a match is found, one that begins later cannot replace it.
            if found.is_none() {
                self.add(&mut now, 0, at, at)?;
            }
            if now.list.is_empty() && found.is_some() {
                break;
            }
            let character = self.text[at..].chars().next();
            let after = at + character.map_or(0, char::len_utf8);
            for index in 0..now.list.len() {
                let (step, begin) = now.list[index];
                self.spend()?;
                let goes_on = match self.program.steps[step as usize] {
                    Step::Match => {
                        found = Some((begin, at));
                        if any_will_do {
                            return Ok(found);
                        }
                        // The pattern prefers this match to those of the remaining threads.
                        break;
                    }
                    Step::Character(wanted) => character == Some(wanted),
                    Step::Class(class) => {
                        character.is_some_and(|one| is_in(&self.program.classes[class as usize], one))
                    }
                    Step::Look(_) | Step::Split(..) => false,
                };
                if goes_on {
                    self.add(&mut next, step + 1, after, begin)?;
                }
            }
            now.clear();
            std::mem::swap(&mut now, &mut next);
            if character.is_none() {
                break;
            }
            at = after;
        }
        Ok(found)
    }

    fn spend(&mut self) -> Result<(), OutOfSteps> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(OutOfSteps)?;
        Ok(())
    }

    /// Adds a thread at an instruction, and at all instructions that it reaches without a character.
    fn add(&mut self, threads: &mut Threads, step: u32, at: usize, begin: usize) -> Result<(), OutOfSteps> {
        self.stack.push(step);
        while let Some(step) = self.stack.pop() {
            self.spend()?;
            if !threads.visit(step) {
                continue;
            }
            match self.program.steps[step as usize] {
                // The preferred branch is pushed last, so that it is visited first.
                Step::Split(first, second) => self.stack.extend([second, first]),
                Step::Look(look) => {
                    if holds(look, self.text, at) {
                        self.stack.push(step + 1);
                    }
                }
                Step::Character(_) | Step::Class(_) | Step::Match => threads.list.push((step, begin)),
            }
        }
        Ok(())
    }
}

/// Whether an assertion holds at a position. Words are ASCII, as in Go.
fn holds(look: Look, text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let (before, after) = (at.checked_sub(1).map(|before| bytes[before]), bytes.get(at).copied());
    let is_word = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match look {
        Look::Start => before.is_none(),
        Look::End => after.is_none(),
        Look::StartLF => before.is_none_or(|byte| byte == b'\n'),
        Look::EndLF => after.is_none_or(|byte| byte == b'\n'),
        Look::WordAscii => is_word(before) != is_word(after),
        Look::WordAsciiNegate => is_word(before) == is_word(after),
        // Translated patterns do not contain other assertions.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Finding E-13
    #[test]
    fn a_search_that_takes_too_many_steps_says_so() {
        let hir = regex_syntax::parse(r"(?:\pL{0,10}\pL{0,10}){10}x").unwrap();
        let Ok(mut program) = Program::compile(&hir) else { panic!("the pattern is small") };
        assert_eq!(program.is_match(&"é".repeat(1000)), Ok(false));
        program.steps_max = 10_000;
        let why = program.is_match(&"é".repeat(1000)).unwrap_err();
        assert_eq!(why, "the match takes more than 10000 steps");
        assert_eq!(program.is_match("éx"), Ok(true));
    }
}
