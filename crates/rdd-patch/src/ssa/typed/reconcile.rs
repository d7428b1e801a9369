//! Adapts a field set to a changed schema: parts that became atomic are owned as a whole.

use super::{
    super::{
        element::{Path, PathElement},
        set::Set,
    },
    Errors, Form, Forms, ValidationErrors, into_result,
};
use crate::shape::{ListKind, Shape};

/// Adapts a set to the current shape; `None` if the set already fits.
///
/// A change from granular to atomic is reconciled. A change from atomic to granular is treated as if the part had
/// always been granular, as upstream does.
pub fn reconcile(set: &Set, shape: &Shape) -> Result<Option<Set>, ValidationErrors> {
    let mut walk = Walk { path: Path::new(), atomics: Set::new() };
    let errors = walk.node(Some(set), false, Some(shape));
    let atomics = into_result(walk.atomics, errors)?;
    Ok((!atomics.is_empty()).then(|| set.recursive_difference(&atomics).union(&atomics)))
}

struct Walk {
    path: Path,
    /// The paths that are now owned as a whole.
    atomics: Set,
}

impl Walk {
    /// `is_whole`: the path itself is owned, and nothing below it.
    fn node(&mut self, below: Option<&Set>, is_whole: bool, shape: Option<&Shape>) -> Errors {
        let atom = shape.map(Shape::atom);
        let forms = atom.map_or(Forms { scalar: false, list: false, map: false }, |atom| Forms::of(atom, None));
        match forms.choose(atom) {
            Err(errors) => return errors,
            Ok(Form::Scalar(_)) => {}
            Ok(Form::List(list)) => {
                if !is_whole && list.kind == ListKind::Atomic {
                    self.atomics.insert(&self.path);
                } else {
                    return self.children(below, |_| Some(list.element.clone()));
                }
            }
            Ok(Form::Map(map)) if map.is_untyped() => {}
            Ok(Form::Map(map)) => {
                if !is_whole && map.atomic {
                    if below.is_some_and(|below| !below.is_empty()) {
                        self.atomics.insert(&self.path);
                    }
                } else {
                    return self.children(below, |element| match element {
                        PathElement::Field(name) => map.field_shape(name).cloned(),
                        _ => map.element.clone(),
                    });
                }
            }
        }
        Errors::new()
    }

    fn children(&mut self, below: Option<&Set>, shape_of: impl Fn(&PathElement) -> Option<Shape>) -> Errors {
        let mut errors = Errors::new();
        for entry in below.map(Set::entries).unwrap_or_default() {
            // Fields that the schema does not have are left as they are.
            let Some(shape) = shape_of(&entry.element) else { continue };
            let children = (!entry.children.is_empty()).then_some(&entry.children);
            self.path.push(entry.element.clone());
            errors.extend(self.node(children, entry.member && children.is_none(), Some(&shape)));
            self.path.pop();
        }
        errors
    }
}
