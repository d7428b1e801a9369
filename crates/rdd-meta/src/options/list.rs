//! The options of list, watch and deletecollection.

use serde_json::json;

use super::{DecodeError, boolean, integer, text};
use crate::{
    continue_token::ContinueToken, field_error::FieldError, fields::FieldSelector, labels::LabelSelector, query::Query,
    resource_version, status::Status,
};

const NOT_OLDER_THAN: &str = "NotOlderThan";
const EXACT: &str = "Exact";

/// The options of list, watch and deletecollection, from the query of a request.
///
/// # Flow
/// [`from_query`](Self::from_query) parses them, [`set_defaults`](Self::set_defaults) adds the defaults of a watch,
/// [`validate`](Self::validate) checks the combination, and [`list_start`](Self::list_start) resolves where a list
/// begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListOptions {
    /// Selects objects by label.
    pub label_selector: LabelSelector,
    /// Selects objects by field.
    pub field_selector: FieldSelector,
    /// Whether the request is a watch.
    pub watch: bool,
    /// Whether the client accepts bookmark events.
    pub allow_watch_bookmarks: bool,
    /// The requested resource version, unparsed.
    pub resource_version: String,
    /// How the resource version is matched. After validation one of `Exact`, `NotOlderThan` and empty.
    pub resource_version_match: String,
    /// How long a watch may take.
    pub timeout_seconds: Option<i64>,
    /// The maximum number of objects per page; 0 or less means no limit.
    pub limit: i64,
    /// The continue token of the next page, as the client sent it.
    pub continue_token: String,
    /// Whether a watch begins with an event for each existing object.
    pub send_initial_events: Option<bool>,
}

/// The resource version at which a list reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListVersion {
    /// The latest committed version at the time of the request.
    Latest,
    /// Any version, however old.
    Any,
    /// This version or a later one.
    NotOlderThan(u64),
    /// Exactly this version.
    Exact(u64),
}

/// Where a list begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListStart {
    /// The resource version at which the list reads.
    pub version: ListVersion,
    /// The first key, relative to the prefix of the list; `None` is the beginning.
    pub key: Option<String>,
}

impl ListOptions {
    /// Parses the options of a query.
    ///
    /// # Errors
    /// When a number or a selector is malformed.
    pub fn from_query(query: &Query) -> Result<Self, DecodeError> {
        let timeout_seconds = integer(query, "timeoutSeconds")?;
        let limit = integer(query, "limit")?.unwrap_or(0);
        Ok(Self {
            label_selector: LabelSelector::parse(&text(query, "labelSelector"))?,
            field_selector: FieldSelector::parse(&text(query, "fieldSelector"))?,
            watch: boolean(query, "watch").unwrap_or(false),
            allow_watch_bookmarks: boolean(query, "allowWatchBookmarks").unwrap_or(false),
            resource_version: text(query, "resourceVersion"),
            resource_version_match: text(query, "resourceVersionMatch"),
            timeout_seconds,
            limit,
            continue_token: text(query, "continue"),
            send_initial_events: boolean(query, "sendInitialEvents"),
        })
    }

    /// Sets the defaults of a watch. One that names no version and none of the newer options gets the legacy behavior:
    /// it begins with the existing objects.
    pub fn set_defaults(&mut self) {
        let named = !matches!(self.resource_version.as_str(), "" | "0");
        if self.watch && !named && self.send_initial_events.is_none() && self.resource_version_match.is_empty() {
            self.send_initial_events = Some(true);
            self.resource_version_match = NOT_OLDER_THAN.to_owned();
        }
    }

    /// Validates that the options can be combined.
    pub fn validate(&self) -> Vec<FieldError> {
        if self.watch { self.validate_watch() } else { self.validate_list() }
    }

    /// Resolves where a validated list begins, like upstream's `storage.ValidateListOptions`.
    ///
    /// A resource version without `resourceVersionMatch` is a minimum, but in a paged list it is exact.
    ///
    /// # Errors
    /// A BadRequest when the resource version or the continue token is invalid, or when both are given.
    pub fn list_start(&self) -> Result<ListStart, Status> {
        if !self.continue_token.is_empty() {
            return self.continued_start();
        }
        let version = resource_version::parse(&self.resource_version)
            .map_err(|error| Status::bad_request(error.bad_request_message()))?;
        let version = match (self.resource_version_match.as_str(), version) {
            _ if self.resource_version.is_empty() => ListVersion::Latest,
            (EXACT, version) => ListVersion::Exact(version),
            (_, 0) => ListVersion::Any,
            ("", version) if self.limit > 0 => ListVersion::Exact(version),
            (_, version) => ListVersion::NotOlderThan(version),
        };
        Ok(ListStart { version, key: None })
    }

    fn continued_start(&self) -> Result<ListStart, Status> {
        let token = ContinueToken::decode(&self.continue_token)
            .map_err(|error| Status::bad_request(error.bad_request_message()))?;
        if !matches!(self.resource_version.as_str(), "" | "0") {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        // An inconsistent token has no version: the list continues at the latest one.
        let version = token.resource_version.and_then(|version| u64::try_from(version).ok());
        Ok(ListStart { version: version.map_or(ListVersion::Latest, ListVersion::Exact), key: Some(token.start) })
    }

    fn validate_list(&self) -> Vec<FieldError> {
        let (path, matching) = ("resourceVersionMatch", self.resource_version_match.as_str());
        let given = !matching.is_empty();
        let mut errors = Vec::new();
        if given && self.resource_version.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(path, why));
        }
        if given && !self.continue_token.is_empty() {
            errors.push(FieldError::forbidden(path, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if given && !matches!(matching, EXACT | NOT_OLDER_THAN) {
            errors.push(FieldError::not_supported(path, &json!(matching), &[EXACT, NOT_OLDER_THAN, ""]));
        }
        if matching == EXACT && self.resource_version == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(path, why));
        }
        if self.send_initial_events.is_some() {
            errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    fn validate_watch(&self) -> Vec<FieldError> {
        let (path, matching) = ("resourceVersionMatch", self.resource_version_match.as_str());
        let given = !matching.is_empty();
        let mut errors = Vec::new();
        if self.send_initial_events.is_some() && matching != NOT_OLDER_THAN {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(path, why));
        }
        if given && self.send_initial_events.is_none() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(path, why));
        }
        if given && matching != NOT_OLDER_THAN {
            errors.push(FieldError::not_supported(path, &json!(matching), &[NOT_OLDER_THAN]));
        }
        if given && !self.continue_token.is_empty() {
            errors.push(FieldError::forbidden(path, "resourceVersionMatch is forbidden when continue is provided"));
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_begins_where_version_match_limit_and_token_say() {
        let token = ContinueToken::after("n/a", 7);
        let (consistent, inconsistent) = (token.encode(), token.inconsistent().encode());
        let first = |version| Ok(ListStart { version, key: None });
        let page = |version| Ok(ListStart { version, key: Some("n/a\0".to_owned()) });
        let refused = |message: &str| Err(Status::bad_request(message));
        for (query, expected) in [
            (String::new(), first(ListVersion::Latest)),
            ("resourceVersion=0".to_owned(), first(ListVersion::Any)),
            ("resourceVersion=0&limit=5".to_owned(), first(ListVersion::Any)),
            ("resourceVersion=0&resourceVersionMatch=NotOlderThan".to_owned(), first(ListVersion::Any)),
            ("resourceVersion=5".to_owned(), first(ListVersion::NotOlderThan(5))),
            ("resourceVersion=5&limit=1".to_owned(), first(ListVersion::Exact(5))),
            (
                "resourceVersion=5&limit=1&resourceVersionMatch=NotOlderThan".to_owned(),
                first(ListVersion::NotOlderThan(5)),
            ),
            ("resourceVersion=5&resourceVersionMatch=Exact".to_owned(), first(ListVersion::Exact(5))),
            (format!("continue={consistent}&limit=2"), page(ListVersion::Exact(7))),
            (format!("continue={inconsistent}&resourceVersion=0"), page(ListVersion::Latest)),
            (
                format!("continue={consistent}&resourceVersion=5"),
                refused("specifying resource version is not allowed when using continue"),
            ),
            (
                "resourceVersion=x".to_owned(),
                refused(
                    r#"invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax"#,
                ),
            ),
            (
                "continue=$".to_owned(),
                refused("invalid continue token: continue key is not valid: illegal base64 data at input byte 0"),
            ),
        ] {
            let options = ListOptions::from_query(&Query::parse(&query)).unwrap();
            assert_eq!(options.list_start(), expected, "{query}");
        }
    }
}
