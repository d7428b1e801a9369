//! Parses the positional arguments: types, names, and `type/name` pairs.

use super::Wanted;
use crate::{
    context::Ctl,
    error::{Error, Result},
};

/// The positional arguments by category.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub(super) types: Vec<String>,
    pub(super) names: Vec<String>,
    pub(super) pairs: Vec<(String, String)>,
    pub(super) means_all: bool,
}

impl Words {
    pub(super) fn read(ctl: &Ctl<'_>, wanted: &Wanted) -> Result<Self> {
        let args = normalized(&wanted.args);
        let slashes = args.iter().filter(|arg| arg.contains('/')).count();
        if slashes > 0 && slashes < args.len() {
            return Err(Error::text(
                "there is no need to specify a resource type as a separate argument when passing arguments in \
                 resource/name form (e.g. 'kubectl get resource/<resource_name>' instead of 'kubectl get resource \
                 resource/<resource_name>'",
            ));
        }
        if slashes > 0 {
            let pairs = args.iter().map(|arg| pair(arg)).collect::<Result<_>>()?;
            return Ok(Self { pairs, ..Self::default() });
        }
        let Some((first, names)) = args.split_first() else { return Ok(Self::default()) };
        let types = if wanted.local { split_types(first) } else { expand_categories(ctl, first)? };
        let means_all = names.is_empty() && wanted.type_means_all;
        Ok(Self { types, names: names.to_vec(), pairs: Vec::new(), means_all })
    }
}

/// Expands `a,b c` to `a/c b/c`.
fn normalized(args: &[String]) -> Vec<String> {
    match args {
        [types, names @ ..] if !names.is_empty() && split_types(types).len() > 1 => {
            let types = split_types(types);
            types.iter().flat_map(|kind| names.iter().map(move |name| format!("{kind}/{name}"))).collect()
        }
        args => args.to_vec(),
    }
}

fn split_types(text: &str) -> Vec<String> {
    let mut types: Vec<String> = Vec::new();
    for part in text.split(',') {
        if !types.iter().any(|known| known == part) {
            types.push(part.to_owned());
        }
    }
    types
}

fn expand_categories(ctl: &Ctl<'_>, text: &str) -> Result<Vec<String>> {
    let mut expanded = Vec::new();
    for part in text.split(',') {
        if ctl.discovery.is_in_core(&ctl.api, part)? {
            expanded.push(part.to_owned());
            continue;
        }
        let members = ctl.discovery.category(&ctl.api, part)?;
        if members.is_empty() {
            expanded.push(part.to_owned());
        } else {
            expanded.extend(members);
        }
    }
    Ok(split_types(&expanded.join(",")))
}

fn pair(text: &str) -> Result<(String, String)> {
    let parts: Vec<&str> = text.split('/').collect();
    let [kind, name] = parts.as_slice() else {
        return Err(Error::text("arguments in resource/name form may not have more than one slash"));
    };
    if kind.is_empty() || name.is_empty() || split_types(kind).len() != 1 {
        return Err(Error::text("arguments in resource/name form must have a single resource and name"));
    }
    Ok(((*kind).to_owned(), (*name).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_types_and_names_are_all_pairs_of_them() {
        let args = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(normalized(&args("a,b c d")), ["a/c", "a/d", "b/c", "b/d"]);
        assert_eq!(normalized(&args("a c d")), ["a", "c", "d"]);
        assert_eq!(normalized(&args("a,b")), ["a,b"]);
        assert_eq!(normalized(&args("a,a c")), ["a,a", "c"]);
    }

    #[test]
    fn a_pair_is_one_type_and_one_name() {
        assert_eq!(pair("cm/x").unwrap(), ("cm".to_owned(), "x".to_owned()));
        for wrong in ["cm/x/y", "cm/", "/x", "a,b/x"] {
            assert!(pair(wrong).is_err(), "{wrong}");
        }
    }
}
