//! Content negotiation: chooses encoding and form of a response from the request's headers, as upstream does.

use http::{HeaderMap, header, request::Parts};
use rdd_meta::{FieldError, Status, query::Query, time::Timestamp};
use rdd_stdx::clock::SharedClock;

use super::{
    accept::{Clause, clauses},
    protobuf,
};
use crate::{
    registry::{Backing, Part},
    rest::{Api, Target},
};

/// The media types of requests and responses.
pub(super) const MEDIA_TYPES: [&str; 3] = ["application/json", "application/yaml", protobuf::MEDIA_TYPE];
/// The media types of watch streams.
const STREAM_MEDIA_TYPES: [&str; 2] = ["application/json;stream=watch", protobuf::STREAM_MEDIA_TYPE];

/// The negotiated representation of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Representation {
    /// The encoding.
    pub encoding: Encoding,
    /// The form of the objects.
    pub form: Form,
    /// Whether the client accepts gzip.
    pub gzip: bool,
    /// The time from which ages are computed. Only tables have ages.
    pub now: Timestamp,
}

impl Representation {
    /// Whether objects are sent as their stored JSON, without parsing.
    pub(crate) fn sends_stored_json(&self) -> bool {
        self.form == Form::Object && self.encoding == (Encoding::Json { pretty: false })
    }

    /// The same representation with ages as of now. A watch calls it for each event.
    #[must_use]
    pub(crate) fn as_of(self, clock: &SharedClock) -> Self {
        match self.form {
            Form::Table { .. } => Self { now: Timestamp::from(clock.wall()), ..self },
            _ => self,
        }
    }
}

/// An encoding of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// JSON.
    Json {
        /// Indented for people.
        pretty: bool,
    },
    /// YAML.
    Yaml,
    /// Protobuf, for built-in kinds and metadata only.
    Protobuf,
}

/// The form in which objects are returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Complete objects.
    Object,
    /// A table with one row per object.
    Table {
        /// The version of the table.
        version: MetaVersion,
        /// What each row contains besides its cells.
        include: Include,
    },
    /// The metadata of one object.
    PartialObjectMetadata(MetaVersion),
    /// The metadata of each object of a list.
    PartialObjectMetadataList(MetaVersion),
}

/// A version of `meta.k8s.io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaVersion {
    /// `v1`.
    V1,
    /// `v1beta1`.
    V1Beta1,
}

/// The object in each row of a table, from the query parameter `includeObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// Its metadata.
    Metadata,
    /// The complete object.
    Object,
}

impl MetaVersion {
    /// The value of `apiVersion`.
    pub(super) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

impl Encoding {
    const ALL: [Self; 3] = [Self::Json { pretty: false }, Self::Yaml, Self::Protobuf];

    /// The media type of the encoding.
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Json { .. } => MEDIA_TYPES[0],
            Self::Yaml => MEDIA_TYPES[1],
            Self::Protobuf => protobuf::MEDIA_TYPE,
        }
    }

    /// The media type of a watch in this encoding.
    pub(crate) fn stream_media_type(self) -> &'static str {
        match self {
            Self::Json { .. } | Self::Yaml => MEDIA_TYPES[0],
            Self::Protobuf => protobuf::STREAM_MEDIA_TYPE,
        }
    }

    fn subtype(self) -> &'static str {
        match self {
            Self::Json { .. } => "json",
            Self::Yaml => "yaml",
            Self::Protobuf => "vnd.kubernetes.protobuf",
        }
    }
}

/// The forms that an endpoint supports besides complete objects.
#[derive(Debug, Clone, Copy)]
struct Endpoint {
    tables: bool,
    partial: bool,
    /// Whether its objects can be encoded in protobuf.
    protobuf: bool,
}

/// Negotiates the representation of a response about a target.
///
/// # Errors
/// 406 if the client accepts nothing that the endpoint offers, 400 if `includeObject` is invalid.
pub fn negotiate(api: &Api, target: &Target, head: &Parts) -> Result<Representation, Status> {
    let (encoding, form) = accepted(&head.headers, || endpoint(target)).ok_or_else(|| refused_by(target, head))?;
    let query = head.uri.query().unwrap_or_default();
    let form = match form {
        Form::Table { version, .. } => Form::Table { version, include: include(query)? },
        other => other,
    };
    // `as_of` sets the time if the form needs one.
    let now = Timestamp::new(0, 0);
    let negotiated = Representation { encoding: prettier(encoding, head), form, gzip: takes_gzip(&head.headers), now };
    Ok(negotiated.as_of(&api.clock))
}

/// Negotiates the representation of a watch. Like [`negotiate`], but only for encodings with a streaming form, and without
/// compression or indentation.
pub fn negotiate_stream(api: &Api, target: &Target, head: &Parts) -> Result<Representation, Status> {
    let negotiated = negotiate(api, target, head)?;
    match negotiated.encoding {
        Encoding::Json { .. } => {
            Ok(Representation { encoding: Encoding::Json { pretty: false }, gzip: false, ..negotiated })
        }
        Encoding::Protobuf => Ok(Representation { gzip: false, ..negotiated }),
        Encoding::Yaml => Err(refused(&STREAM_MEDIA_TYPES)),
    }
}

/// Negotiates the encoding of a response that is not an object of an endpoint, such as a Status. `protobuf` is whether it can be
/// encoded in protobuf. Returns `None` if the client accepts none of the encodings.
pub(super) fn negotiate_plain(head: &Parts, protobuf: bool) -> Option<Encoding> {
    let nothing_else = Endpoint { tables: false, partial: false, protobuf };
    accepted(&head.headers, || nothing_else).map(|(encoding, _)| prettier(encoding, head))
}

/// The 406 for a target. If the client accepts no media type of built-in resources at all, it has the message of upstream's router,
/// which rejects such requests before negotiation.
fn refused_by(target: &Target, head: &Parts) -> Status {
    let mut status = refused(&MEDIA_TYPES);
    let accept = head.headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut wanted =
        accept.flat_map(|value| value.split(',')).map(|clause| clause.split(';').next().unwrap_or_default());
    if target.def.custom.is_none() && !wanted.any(|media_type| MEDIA_TYPES.contains(&media_type.trim())) {
        status.message = format!("406: Not Acceptable\n\nAvailable representations: {}", MEDIA_TYPES.join(", "));
        status.details = Some(Box::default());
    }
    status
}

fn refused(media_types: &[&str]) -> Status {
    Status::not_acceptable(media_types)
}

fn endpoint(target: &Target) -> Endpoint {
    // Reviews and other virtual resources are never stored, so they have no lists and no columns.
    let question = matches!(target.subresource().map(|subresource| &subresource.part), Some(Part::Question(_)));
    let tables = !question && matches!(target.def.backing, Backing::Stored(_));
    Endpoint { tables, partial: true, protobuf: protobuf::kind_of(target).is_some() }
}

fn accepted(headers: &HeaderMap, endpoint: impl FnOnce() -> Endpoint) -> Option<(Encoding, Form)> {
    let header = match headers.get(header::ACCEPT).map(|value| value.to_str()) {
        // Most requests end here, without parsing the header.
        None | Some(Ok("" | "application/json" | "*/*")) => return Some((Encoding::ALL[0], Form::Object)),
        Some(header) => header.ok()?,
    };
    let endpoint = endpoint();
    clauses(header).iter().find_map(|clause| {
        let covered = Encoding::ALL.into_iter().filter(|encoding| clause.covers(encoding.subtype()));
        covered.into_iter().find_map(|encoding| offered(clause, encoding, endpoint))
    })
}

/// The response that an endpoint offers for one clause in one encoding, as upstream's `acceptMediaTypeOptions` decides it.
fn offered(clause: &Clause<'_>, encoding: Encoding, endpoint: Endpoint) -> Option<(Encoding, Form)> {
    let streams = encoding != Encoding::Yaml;
    let server_version = if endpoint.partial { "v1" } else { "" };
    let stream_fits = clause.parameter("stream").is_none_or(|stream| stream.is_empty() || streams && stream == "watch");
    let version_fits = clause.parameter("sv").is_none_or(|version| version.is_empty() || version == server_version);
    if !stream_fits || !version_fits {
        return None;
    }
    let pretty = clause.parameter("pretty") == Some("1");
    let encoding = if let Encoding::Json { .. } = encoding { Encoding::Json { pretty } } else { encoding };
    let [kind, group, version] = ["as", "g", "v"].map(|name| clause.parameter(name));
    // Without these parameters the client wants complete objects.
    if kind.is_none() && group.is_none() && version.is_none() {
        return (encoding != Encoding::Protobuf || endpoint.protobuf).then_some((encoding, Form::Object));
    }
    let version = match (group, version) {
        (Some("meta.k8s.io"), Some("v1")) => MetaVersion::V1,
        (Some("meta.k8s.io"), Some("v1beta1")) => MetaVersion::V1Beta1,
        _ => return None,
    };
    match kind? {
        // Tables have no form in protobuf.
        "Table" if endpoint.tables && encoding != Encoding::Protobuf => {
            Some((encoding, Form::Table { version, include: Include::Metadata }))
        }
        "PartialObjectMetadata" if endpoint.partial => Some((encoding, Form::PartialObjectMetadata(version))),
        "PartialObjectMetadataList" if endpoint.partial => Some((encoding, Form::PartialObjectMetadataList(version))),
        _ => None,
    }
}

fn include(query: &str) -> Result<Include, Status> {
    let query = Query::parse(query);
    match query.first("includeObject").unwrap_or_default() {
        "" | "Metadata" => Ok(Include::Metadata),
        "None" => Ok(Include::None),
        "Object" => Ok(Include::Object),
        other => {
            let why = "must be 'Metadata', 'Object', 'None', or empty";
            let error = FieldError::invalid_string("includeObject", other, why);
            Err(Status::bad_request(format!("Unable to convert to Table as requested: {error}")))
        }
    }
}

/// Chooses indented JSON if the `pretty` parameter asks for it or, without the parameter, if the client is a browser, curl or Wget.
pub(super) fn prettier(encoding: Encoding, head: &Parts) -> Encoding {
    let Encoding::Json { pretty: false } = encoding else { return encoding };
    let query = head.uri.query().filter(|query| query.contains("pretty")).map(Query::parse);
    let said = query.as_ref().and_then(|query| query.first("pretty")).filter(|value| !value.is_empty());
    let pretty = match said {
        Some(value) => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => {
            let agent = head.headers.get(header::USER_AGENT).map(|value| value.as_bytes()).unwrap_or_default();
            [&b"curl"[..], b"Wget", b"Mozilla/5.0"].iter().any(|prefix| agent.starts_with(prefix))
        }
    };
    Encoding::Json { pretty }
}

pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let encodings = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    encodings.is_some_and(|encodings| encodings.split(',').any(|encoding| encoding.trim() == "gzip"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The endpoint of a custom resource.
    const ALL: Endpoint = Endpoint { tables: true, partial: true, protobuf: false };
    const BUILT_IN: Endpoint = Endpoint { protobuf: true, ..ALL };

    fn told(accept: &str, endpoint: Endpoint) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        accepted(&headers, || endpoint).map_or("406".to_owned(), |(encoding, form)| format!("{encoding:?} {form:?}"))
    }

    #[track_caller]
    fn check(accept: &str, expected: &str) {
        assert_eq!(told(accept, ALL), expected, "{accept}");
    }

    #[test]
    fn json_is_the_answer_unless_something_else_is_preferred() {
        let json = "Json { pretty: false } Object";
        for accept in [
            "",
            "*/*",
            "application/*",
            "application/json",
            "application/vnd.kubernetes.protobuf,application/json",
            "application/vnd.kubernetes.protobuf, */*",
            "text/html,*/*;q=0.1",
            "application/json;stream=watch",
            "application/yaml;q=0.5,application/json;q=0.9",
            "application/yaml;stream=watch,application/json",
            "application/json;sv=v1",
            "application/json;unknown=1",
        ] {
            check(accept, json);
        }
        check("application/json;pretty=1", "Json { pretty: true } Object");
        check("application/yaml", "Yaml Object");
        check("application/yaml,application/json", "Yaml Object");
        for accept in [
            "application/vnd.kubernetes.protobuf",
            "application/cbor",
            "text/*",
            "application/json;stream=other",
            "application/json;sv=v2",
            "application/json;as=Table;v=v2;g=meta.k8s.io",
            "application/json;as=Table;v=v1;g=other",
            "application/json;as=Foo;v=v1;g=meta.k8s.io",
            "application/json;v=v1;g=meta.k8s.io",
            "nonsense",
        ] {
            check(accept, "406");
        }
    }

    #[test]
    fn tables_and_partial_objects_are_given_where_they_can_be() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let kubectl = format!("{table},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json");
        check(&kubectl, "Json { pretty: false } Table { version: V1, include: Metadata }");
        check(
            "application/yaml;g=meta.k8s.io;v=v1beta1;as=Table",
            "Yaml Table { version: V1Beta1, include: Metadata }",
        );
        let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        check(partial, "Protobuf PartialObjectMetadata(V1)");
        let without = Endpoint { tables: false, ..ALL };
        assert_eq!(told(table, without), "406");
        assert_eq!(told(&kubectl, without), "Json { pretty: false } Object");
        assert_eq!(
            told(partial, Endpoint { tables: false, partial: false, protobuf: false }),
            "Json { pretty: false } Object"
        );
    }

    #[test]
    fn protobuf_is_for_built_in_kinds_and_for_whoever_prefers_it() {
        let told = |accept: &str| told(accept, BUILT_IN);
        for accept in [
            "application/vnd.kubernetes.protobuf",
            "application/vnd.kubernetes.protobuf,application/json",
            "application/vnd.kubernetes.protobuf;stream=watch",
            "application/json;q=0.5,application/vnd.kubernetes.protobuf",
        ] {
            assert_eq!(told(accept), "Protobuf Object", "{accept}");
        }
        assert_eq!(told("application/json,application/vnd.kubernetes.protobuf"), "Json { pretty: false } Object");
        assert_eq!(told("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io"), "406");
    }

    #[test]
    fn people_get_it_indented() {
        let pretty = |agent: &str, query: &str| {
            let request = http::Request::get(format!("/?{query}")).header(header::USER_AGENT, agent).body(()).unwrap();
            negotiate_plain(&request.into_parts().0, true) == Some(Encoding::Json { pretty: true })
        };
        assert!(pretty("curl/8.0", "") && pretty("Mozilla/5.0 (X11)", "a=b") && pretty("kubectl", "pretty=true"));
        assert!(!pretty("kubectl", "") && !pretty("curl/8.0", "pretty=false") && !pretty("curl/8.0", "pretty=maybe"));
    }

    #[test]
    fn an_unknown_include_is_refused_in_upstreams_words() {
        assert_eq!(include("includeObject=None"), Ok(Include::None));
        assert_eq!(
            include("includeObject=Foo").unwrap_err().message,
            "Unable to convert to Table as requested: includeObject: Invalid value: \"Foo\": must be 'Metadata', 'Object', 'None', or empty"
        );
    }
}
