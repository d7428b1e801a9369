//! An object with its shape, shared between the steps of an apply.

use super::{
    set::Set,
    typed::{self, Comparison},
    updater::{UpdateError, failed},
};
use crate::shape::Shape;
use serde_json::Value;
use std::{ops::Deref, sync::Arc};

/// A value with its shape. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Typed<'a> {
    pub(super) value: Shared<'a>,
    pub(super) shape: Shape,
}

#[derive(Debug, Clone)]
pub(super) enum Shared<'a> {
    Borrowed(&'a Value),
    Owned(Arc<Value>),
}

impl Deref for Shared<'_> {
    type Target = Value;

    fn deref(&self) -> &Value {
        match self {
            Self::Borrowed(value) => value,
            Self::Owned(value) => value,
        }
    }
}

impl<'a> Typed<'a> {
    pub(super) fn new(value: &'a Value, shape: Shape) -> Self {
        Self { value: Shared::Borrowed(value), shape }
    }

    pub(super) fn owned(value: Value, shape: Shape) -> Self {
        Self { value: Shared::Owned(Arc::new(value)), shape }
    }

    pub(super) fn into_value(self) -> Value {
        match self.value {
            Shared::Borrowed(value) => value.clone(),
            Shared::Owned(value) => Arc::unwrap_or_clone(value),
        }
    }
}

impl Typed<'_> {
    pub(super) fn to_set(&self) -> Result<Set, UpdateError> {
        typed::to_set(&self.value, &self.shape).map_err(|errors| UpdateError::Failed(errors.to_string()))
    }

    pub(super) fn without(&self, fields: &Set) -> Typed<'static> {
        Typed::owned(typed::remove(&self.value, fields, &self.shape), self.shape.clone())
    }

    pub(super) fn named(&self, set: &Set) -> Set {
        set.with_named_fields(Some(&self.shape))
    }

    pub(super) fn compare(&self, new: &Typed<'_>) -> Result<Comparison, UpdateError> {
        typed::compare(&self.value, &new.value, &self.shape)
            .map_err(|errors| failed("failed to compare objects", errors))
    }
}
