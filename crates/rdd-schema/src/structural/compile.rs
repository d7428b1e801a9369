//! Compiles a parsed schema to the structural form.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{Additional, Extensions, ListType, MapType, Structural, StructuralError, Type, Validation};
use crate::{
    format::Format,
    pattern::{MemoryBudget, Pattern},
    props::{Items, Props, PropsOrBool},
};

/// Builds the nodes of one schema; equal strings and patterns are shared.
#[derive(Default)]
pub(super) struct Compiler {
    strings: HashSet<Arc<str>>,
    patterns: HashMap<String, Pattern>,
    /// The memory budget of all patterns of the schema together.
    pattern_memory: MemoryBudget,
}

impl Compiler {
    fn intern(&mut self, text: &str) -> Arc<str> {
        match self.strings.get(text) {
            Some(known) => known.clone(),
            None => {
                let fresh: Arc<str> = text.into();
                self.strings.insert(fresh.clone());
                fresh
            }
        }
    }

    fn intern_all(&mut self, texts: &[String]) -> Box<[Arc<str>]> {
        texts.iter().map(|text| self.intern(text)).collect()
    }

    /// Compiles one node and everything below it.
    pub(super) fn node(&mut self, props: &Props) -> Result<Structural, StructuralError> {
        refuse_unsupported(props)?;
        let items = match &props.items {
            Some(Items::Many(many)) if !many.is_empty() => return Err(StructuralError::ItemsArray),
            Some(Items::One(one)) => Some(Box::new(self.node(one)?)),
            _ => None,
        };
        let mut properties = Vec::with_capacity(props.properties.len());
        for (name, schema) in &props.properties {
            properties.push((self.intern(name), self.node(schema)?));
        }
        let additional = match &props.additional_properties {
            None => Additional::Unspecified,
            Some(PropsOrBool::Bool(flag)) => Additional::Bool(*flag),
            Some(PropsOrBool::Schema(schema)) => Additional::Schema(Box::new(self.node(schema)?)),
        };
        // Few nodes have these, so they live in an extra allocation.
        let extensions = (!props.list_map_keys.is_empty() || !props.validations.is_empty()).then(|| {
            Box::new(Extensions {
                list_map_keys: self.intern_all(&props.list_map_keys),
                rules: props.validations.clone().into(),
            })
        });
        Ok(Structural {
            kind: Type::parse(&props.kind),
            nullable: props.nullable,
            // Only `true` is left: `refuse_unsupported` refuses `false`.
            preserve_unknown_fields: props.preserve_unknown_fields.is_some(),
            embedded_resource: props.embedded_resource,
            int_or_string: props.int_or_string,
            list_type: match props.list_type.as_deref() {
                Some("atomic") => Some(ListType::Atomic),
                Some("set") => Some(ListType::Set),
                Some("map") => Some(ListType::Map),
                _ => None,
            },
            map_type: match props.map_type.as_deref() {
                Some("atomic") => Some(MapType::Atomic),
                Some("granular") => Some(MapType::Granular),
                _ => None,
            },
            items,
            properties: properties.into(),
            additional,
            default: props.default.clone().map(Box::new),
            extensions,
            validation: self.validation(props)?.map(Box::new),
        })
    }

    fn nodes(&mut self, list: &[Props]) -> Result<Box<[Structural]>, StructuralError> {
        list.iter().map(|props| self.node(props)).collect()
    }

    /// Compiles what restricts a value; `None` if nothing does, as for most nodes.
    fn validation(&mut self, props: &Props) -> Result<Option<Validation>, StructuralError> {
        let pattern = (!props.pattern.is_empty()).then(|| {
            // All patterns of a schema share one memory budget, so that many large ones cannot exhaust the memory.
            let make = || Pattern::in_schema(&props.pattern, &self.pattern_memory);
            self.patterns.entry(props.pattern.clone()).or_insert_with(make).clone()
        });
        // Most nodes restrict nothing; they skip the allocation and the checks.
        let restricted = pattern.is_some()
            || !props.format.is_empty()
            || [props.maximum, props.minimum, props.multiple_of].iter().any(Option::is_some)
            || [props.max_length, props.min_length, props.max_items, props.min_items].iter().any(Option::is_some)
            || [props.max_properties, props.min_properties].iter().any(Option::is_some)
            || props.unique_items
            || !props.enumeration.is_empty()
            || !props.required.is_empty()
            || [&props.all_of, &props.any_of, &props.one_of].iter().any(|list| !list.is_empty())
            || props.not.is_some();
        if !restricted {
            return Ok(None);
        }
        Ok(Some(Validation {
            format: (!props.format.is_empty()).then(|| self.intern(&props.format)),
            known_format: Format::of(&props.format),
            maximum: props.maximum,
            exclusive_maximum: props.exclusive_maximum,
            minimum: props.minimum,
            exclusive_minimum: props.exclusive_minimum,
            multiple_of: props.multiple_of,
            max_length: props.max_length,
            min_length: props.min_length,
            max_items: props.max_items,
            min_items: props.min_items,
            max_properties: props.max_properties,
            min_properties: props.min_properties,
            unique_items: props.unique_items,
            pattern,
            enumeration: props.enumeration.clone().into(),
            required: self.intern_all(&props.required),
            all_of: self.nodes(&props.all_of)?,
            any_of: self.nodes(&props.any_of)?,
            one_of: self.nodes(&props.one_of)?,
            not: match &props.not {
                Some(not) => Some(Box::new(self.node(not)?)),
                None => None,
            },
        }))
    }
}

/// Refuses fields that a structural schema cannot have.
fn refuse_unsupported(props: &Props) -> Result<(), StructuralError> {
    let unsupported = [
        (!props.id.is_empty(), "id"),
        (!props.schema.is_empty(), "schema"),
        (props.reference.as_ref().is_some_and(|reference| !reference.is_empty()), "$ref"),
        (!props.pattern_properties.is_empty(), "patternProperties"),
        (props.dependencies.as_ref().is_some_and(|dependencies| !dependencies.is_empty()), "dependencies"),
        (props.additional_items.is_some(), "additionalItems"),
        (!props.definitions.is_empty(), "definitions"),
    ];
    if let Some((_, name)) = unsupported.iter().find(|(set, _)| *set) {
        return Err(StructuralError::Unsupported(name));
    }
    // The validation of CRDs refuses an explicit `false` as well.
    if props.preserve_unknown_fields == Some(false) {
        return Err(StructuralError::PreserveFalse);
    }
    Ok(())
}
