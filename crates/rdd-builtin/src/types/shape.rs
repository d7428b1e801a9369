//! The merge schemas of the types, equal to those that upstream derives from the OpenAPI definitions.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use rdd_patch::shape::{
    Atom, Field as ShapeField, List, ListKind, Map, PatchRule, PatchStrategy, Scalar, Shape, openapi::Definitions,
};
use serde_json::{Value, json};

use super::{Field, ListType, STRUCTS, Struct, Type};

/// One shape per struct, so that recursive types do not become infinite trees. Built on first use.
static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| STRUCTS.iter().map(of_struct).collect());

/// The shapes of the types with custom decoding, from their definitions.
static SPECIAL: LazyLock<Definitions> = LazyLock::new(|| {
    let parse = |(_, definition, form): &(&str, &str, &str)| {
        let form = serde_json::from_str(form).expect("the build wrote JSON");
        ((*definition).to_owned(), form)
    };
    Definitions::new(super::SPECIAL_FORMS.iter().map(parse).collect(), false)
});

impl super::Kind {
    /// The merge schema of the kind.
    pub fn shape(&self) -> Shape {
        SHAPES[self.structure].clone()
    }
}

fn of_struct(structure: &'static Struct) -> Shape {
    Shape::lazy(move || {
        let fields: BTreeMap<Arc<str>, ShapeField> =
            structure.fields.iter().map(|field| (field.name.into(), of_field(field))).collect();
        // An object without properties may have any fields.
        let element = fields.is_empty().then(Shape::deduced);
        let map = Map { fields, element, atomic: structure.atomic };
        Atom { name: Some(structure.definition.into()), map: Some(map), ..Atom::default() }
    })
}

fn of_field(field: &'static Field) -> ShapeField {
    let mut shape = of_type(&field.kind, field.list);
    if field.atomic {
        let whole = shape;
        shape = Shape::lazy(move || {
            let mut atom = whole.atom().clone();
            if let Some(map) = &mut atom.map {
                map.atomic = true;
            }
            atom
        });
    }
    let strategy = if field.merge { PatchStrategy::Merge } else { PatchStrategy::Unset };
    let patch = PatchRule { strategy, retain_keys: false, merge_key: field.merge_key.map(Arc::from) };
    ShapeField { shape, default: default(field), patch }
}

/// The published default: the stated one, or Go's zero value of a field that is always written.
fn default(field: &Field) -> Option<Value> {
    if let Some(stated) = field.default {
        return Some(serde_json::from_str(stated).expect("the table states JSON"));
    }
    let always = !field.omit_empty;
    match field.kind.underlying() {
        Type::Struct(_) => Some(json!({})),
        Type::String if always => Some("".into()),
        Type::Bool if always => Some(false.into()),
        Type::Int32 | Type::Int64 | Type::Float64 if always => Some(0.into()),
        _ => None,
    }
}

fn of_type(kind: &'static Type, list: ListType) -> Shape {
    match kind {
        Type::Named(_, below) | Type::Pointer(below) => of_type(below, list),
        Type::Bool => Shape::scalar(Scalar::Boolean),
        Type::Int32 | Type::Int64 | Type::Float64 => Shape::scalar(Scalar::Numeric),
        Type::String | Type::Bytes => Shape::scalar(Scalar::String),
        Type::Struct(at) => SHAPES[*at].clone(),
        Type::List(below) => Shape::lazy(move || {
            let kind = match list {
                ListType::Set => ListKind::Set,
                ListType::Map(keys) => ListKind::Map { keys: keys.iter().map(|key| Arc::from(*key)).collect() },
                ListType::Atomic | ListType::Unset => ListKind::Atomic,
            };
            Atom { list: Some(List { element: of_type(below, ListType::Unset), kind }), ..Atom::default() }
        }),
        Type::Map(below) => Shape::lazy(move || {
            let map = Map { element: Some(of_type(below, ListType::Unset)), ..Map::default() };
            Atom { map: Some(map), ..Atom::default() }
        }),
        special => {
            let found = super::SPECIAL_FORMS.iter().find(|(name, _, _)| *name == special.go_name());
            found.and_then(|(_, definition, _)| SPECIAL.shape(definition)).expect("the build wrote a form for each")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{openapi, types};

    /// Asserts that two shapes are equal; named ones are compared once.
    fn same(ours: &Shape, theirs: &Shape, place: &str, seen: &mut HashSet<String>) {
        let (ours, theirs) = (ours.atom(), theirs.atom());
        assert_eq!((&ours.name, ours.scalar), (&theirs.name, theirs.scalar), "{place}");
        assert_eq!((ours.list.is_some(), ours.map.is_some()), (theirs.list.is_some(), theirs.map.is_some()), "{place}");
        if ours.name.as_ref().is_some_and(|name| !seen.insert(name.to_string())) {
            return;
        }
        if let (Some(ours), Some(theirs)) = (&ours.list, &theirs.list) {
            assert_eq!(ours.kind, theirs.kind, "{place}");
            same(&ours.element, &theirs.element, &format!("{place}[]"), seen);
        }
        if let (Some(ours), Some(theirs)) = (&ours.map, &theirs.map) {
            assert_eq!(ours.atomic, theirs.atomic, "{place}");
            assert_eq!(ours.element.is_some(), theirs.element.is_some(), "{place}");
            if let (Some(ours), Some(theirs)) = (&ours.element, &theirs.element) {
                same(ours, theirs, &format!("{place}{{}}"), seen);
            }
            let names = |map: &Map| map.fields.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(ours), names(theirs), "{place}");
            for (name, field) in &ours.fields {
                let (other, place) = (&theirs.fields[name], format!("{place}.{name}"));
                assert_eq!((&field.default, &field.patch), (&other.default, &other.patch), "{place}");
                same(&field.shape, &other.shape, &place, seen);
            }
        }
    }

    #[test]
    fn shapes_are_those_that_the_definitions_give() {
        for kind in types::kinds() {
            let name = kind.structure().definition;
            let definitions = Definitions::new(openapi::closure([name]), false);
            same(&kind.shape(), &definitions.shape(name).unwrap(), name, &mut HashSet::new());
        }
    }
}
