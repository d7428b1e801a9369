//! The entry point: from an HTTP request to the verb that answers it.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use http::{HeaderMap, StatusCode, header, request::Parts};
use rdd_meta::{
    Status, go_text,
    metadata::Metadata,
    options::{self, DeleteOptions, ListOptions, WriteOptions},
    path::{PathError, RequestInfo, Verb},
    query::Query,
};
use rdd_schema::strict::Document;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Api, Content, Context, PatchType, Target, Written, create, delete, delete_collection, get, list, patch,
    patch::read_patch,
    rescale,
    resolve::{Nowhere, resolve},
    scale, update, watch,
    writing::{Writing, elsewhere},
};
use crate::{
    admission::{self, Warnings},
    discovery, offload,
    openapi::{self, OpenApi},
    registry::{Part, form},
    represent::{self, Representation, Wire},
    request::{Answer, Class, Classified, Found, Handler, Request, verb_of},
    respond::{self, Response},
};

/// The timeout of a request without a `timeout` parameter.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves the API and the documents that describe it.
#[derive(Debug)]
pub struct Endpoints {
    api: Arc<Api>,
    openapi: Arc<OpenApi>,
}

impl Endpoints {
    /// Serves an API and its discovery and OpenAPI documents.
    pub fn new(api: Arc<Api>, openapi: Arc<OpenApi>) -> Self {
        Self { api, openapi }
    }
}

impl Handler for Endpoints {
    fn classify(&self, head: &Parts) -> (Classified, Found) {
        let asked = Asked::read(head);
        (asked.classify(head), Some(Box::new(asked)))
    }

    fn paths(&self) -> Vec<String> {
        let served = self.api.registry.served();
        let mut paths = discovery::paths(&served);
        paths.extend(openapi::paths(&served));
        paths
    }

    fn handle(&self, mut request: Request) -> Answer {
        let asked = request.found.take().and_then(|found| found.downcast::<Asked>().ok());
        let Asked { query, info } = asked.map_or_else(|| Asked::read(&request.head), |asked| *asked);
        let info = match info {
            Ok(info) if info.is_resource_request => info,
            Ok(info) => return self.document(request.head, info),
            Err(_) => return Answer::Now(respond::not_found()),
        };
        let target = match resolve(&self.api.registry.served(), &request.head.method, &info) {
            Ok(target) => target,
            Err(nowhere) => return Answer::Now(self.refuse(nowhere, &request.head, &info)),
        };
        // Most GETs complete at once. Polling one first saves the box and the task switch of a deferred answer.
        if info.verb == Verb::Get
            && let Some(answered) = get(&self.api, &target, &request.head).now_or_never()
        {
            return Answer::Now(finish(&request.head, answered, &warnings_of(&target)));
        }
        let (api, mut asking) = (Arc::clone(&self.api), Asking { request, query, info, target });
        Answer::later(async move { asking.answer(&api).await })
    }
}

/// The parsed query and path of a request. `classify` parses them; `handle` reuses them.
#[derive(Debug, Clone)]
struct Asked {
    query: Query,
    info: Result<RequestInfo, PathError>,
}

impl Asked {
    fn read(head: &Parts) -> Self {
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let info = RequestInfo::parse(head.method.as_str(), head.uri.path(), &query);
        Self { query, info }
    }

    fn classify(&self, head: &Parts) -> Classified {
        let unknown = Classified { verb: verb_of(&head.method), class: Class::Bounded };
        let Some(info) = self.info.as_ref().ok().filter(|info| info.is_resource_request) else { return unknown };
        let bounded = |verb| Classified { verb, class: Class::Bounded };
        match info.verb {
            Verb::Get => Classified { verb: "GET", class: Class::Brief },
            Verb::List => bounded("LIST"),
            Verb::Watch => Classified { verb: "WATCH", class: Class::Endless },
            Verb::Create => bounded("POST"),
            Verb::Update => bounded("PUT"),
            Verb::Patch => bounded(match content_type(&head.headers).and_then(PatchType::of) {
                Some(PatchType::Apply) => "APPLY",
                _ => "PATCH",
            }),
            Verb::Delete => bounded("DELETE"),
            Verb::DeleteCollection => bounded("DELETECOLLECTION"),
            _ => unknown,
        }
    }
}

impl Endpoints {
    /// Answers a request for discovery or OpenAPI.
    fn document(&self, head: Parts, info: RequestInfo) -> Answer {
        let (served, openapi) = (self.api.registry.served(), Arc::clone(&self.openapi));
        Answer::later(async move {
            if let Some(response) = discovery::answer(&served, &head, info.path()) {
                return response;
            }
            openapi.answer(&served, &head, info.path()).await.unwrap_or_else(respond::not_found)
        })
    }

    /// The response for a request to a resource that is not served.
    fn refuse(&self, nowhere: Nowhere, head: &Parts, info: &RequestInfo) -> Response {
        match nowhere {
            Nowhere::Unknown => respond::not_found(),
            Nowhere::Refused(status) => {
                let warnings = Warnings::default();
                deprecation(&self.api, info).into_iter().for_each(|text| warnings.add(text));
                finish(head, Err(*status), &warnings)
            }
        }
    }
}

/// A request to a served resource. The steps of the answer borrow it: if each owned it, every future would hold a copy and each
/// request would be moved as often.
struct Asking {
    request: Request,
    query: Query,
    info: RequestInfo,
    target: Target,
}

impl Asking {
    /// Answers within the timeout of the request.
    async fn answer(&mut self, api: &Api) -> Response {
        // Only a shorter timeout needs a timer here: the server frame enforces the default.
        let Some(patience) = self.request.patience.filter(|patience| *patience < PATIENCE) else {
            return offload::offload(self.answer_some_time(api)).await;
        };
        // The timeout is around the offloading, so that it also ends the wait for a slot.
        match tokio::time::timeout(patience, offload::offload(self.answer_some_time(api))).await {
            Ok(response) => response,
            Err(_) => {
                let status = Status::timeout("request did not complete within the allotted timeout");
                represent::error(&self.request.head, &status)
            }
        }
    }

    async fn answer_some_time(&mut self, api: &Api) -> Response {
        let Self { request, query, info, target } = self;
        let warnings = warnings_of(target);
        let answered = match info.verb {
            Verb::Get => get(api, target, &request.head).await,
            Verb::List => list(api, target, &request.head).await,
            Verb::Watch => watch(api, target, &request.head, CancellationToken::clone(&request.stopping)).await,
            // A write has many steps. Its future is boxed, so that the future of a read stays small.
            _ => return Box::pin(change(api, request, query, &info.verb, target, warnings)).await,
        };
        finish(&request.head, answered, &warnings)
    }
}

/// Answers one write.
async fn change(
    api: &Api,
    request: &mut Request,
    query: &Query,
    verb: &Verb,
    target: &Target,
    warnings: Warnings,
) -> Response {
    let context = context(request, query, warnings);
    if target.version().kind.is_expensive() {
        offload::announce(offload::UNBOUNDED).await;
    }
    let answered = Change { api, target, request: &mut *request, query }.answer(verb, &context).await;
    finish(&request.head, answered, &context.warnings)
}

/// The user and the options of a write.
fn context(request: &Request, query: &Query, warnings: Warnings) -> Context {
    let options = WriteOptions::from_query(query);
    let agent = request.head.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let manager = match options.field_manager.as_str() {
        "" => manager_of(agent.unwrap_or_default()),
        given => given.to_owned(),
    };
    let deadline = Instant::now() + request.patience.unwrap_or(admission::TIME_MAX).min(admission::TIME_MAX);
    Context { user: Arc::clone(&request.identity), manager, options, deadline, warnings }
}

/// The deprecation warning of a custom resource's version. It applies to any request, also for a verb that the version lacks.
fn deprecation(api: &Api, info: &RequestInfo) -> Option<String> {
    let served = api.registry.served();
    let def = served.get(info.group(), info.resource()).filter(|def| def.custom.is_some())?;
    def.version(info.version())?.deprecation.clone()
}

/// The deprecation warning of a target.
fn warnings_of(target: &Target) -> Warnings {
    let warnings = Warnings::default();
    target.version().deprecation.iter().for_each(|text| warnings.add(text.clone()));
    warnings
}

/// Turns an error into a response, and adds the warnings.
fn finish(head: &Parts, answered: Result<Response, Status>, warnings: &Warnings) -> Response {
    let mut response = answered.unwrap_or_else(|status| represent::error(head, &status));
    represent::add_warnings(response.headers_mut(), &warnings.take());
    response
}

/// A write request.
struct Change<'a> {
    api: &'a Api,
    target: &'a Target,
    request: &'a mut Request,
    query: &'a Query,
}

impl Change<'_> {
    async fn answer(&mut self, verb: &Verb, context: &Context) -> Result<Response, Status> {
        let shown = represent::negotiate(self.api, self.target, &self.request.head)?;
        match verb {
            Verb::Create => self.create(context, &shown).await,
            Verb::Update => self.update(context, &shown).await,
            Verb::Patch => self.patch(context, &shown).await,
            Verb::Delete => self.delete(context, &shown).await,
            _ => self.delete_collection(context, &shown).await,
        }
    }

    async fn create(&mut self, context: &Context, shown: &Representation) -> Result<Response, Status> {
        check("CreateOptions", &context.options.validate())?;
        let body = self.body().await?;
        if let Some(Part::Question(question)) = self.target.subresource().map(|subresource| &subresource.part) {
            let question = Arc::clone(question);
            return self.ask(&*question, body, context, shown);
        }
        let written = create(self.api, self.target, context, body).await?;
        self.written(shown, written)
    }

    /// Answers a create of a virtual subresource.
    fn ask(
        &self,
        question: &dyn crate::registry::Question,
        body: Document,
        context: &Context,
        shown: &Representation,
    ) -> Result<Response, Status> {
        let writing = Writing::new(self.api, self.target, context);
        let given = Metadata::of(&body.value).namespace();
        if !given.is_empty() && Some(given) != self.target.namespace.as_deref() {
            return Err(elsewhere());
        }
        // The answer depends on the definition and the namespace, which may have changed since the request was resolved.
        writing.confirm(true)?;
        let object = self.target.object(&self.api.state)?;
        let object = form::value(&self.target.def, self.target.version(), &object)?;
        let answer = question.answer(body.value, &object, &context.user)?;
        represent::object(shown, self.target, StatusCode::CREATED, Wire::Value(answer))
    }

    async fn update(&mut self, context: &Context, shown: &Representation) -> Result<Response, Status> {
        check("UpdateOptions", &context.options.validate())?;
        let body = self.body().await?;
        let written = if self.is_scale() {
            rescale::update(self.api, self.target, context, body).await?
        } else {
            update(self.api, self.target, context, body).await?
        };
        self.written(shown, written)
    }

    async fn patch(&mut self, context: &Context, shown: &Representation) -> Result<Response, Status> {
        let strategic = self.target.version().kind.strategic() && !self.is_scale();
        let given = content_type(&self.request.head.headers).and_then(PatchType::of);
        let patch_type = given.filter(|given| strategic || *given != PatchType::Strategic);
        let patch_type = patch_type.ok_or_else(|| unsupported_patch(strategic))?;
        check("PatchOptions", &context.options.validate_patch(patch_type == PatchType::Apply))?;
        let bytes = self.request.read_body().await?;
        let body = read_patch(patch_type, &bytes)?;
        let written = if self.is_scale() {
            rescale::patch(self.api, self.target, context, patch_type, body).await?
        } else {
            patch(self.api, self.target, context, patch_type, body).await?
        };
        self.written(shown, written)
    }

    async fn delete(&mut self, context: &Context, shown: &Representation) -> Result<Response, Status> {
        let options = self.delete_options().await?;
        let deleted = delete(self.api, self.target, context, &options).await?;
        let waits = !deleted.gone && options.orphan_dependents == Some(false);
        let code = if waits { StatusCode::ACCEPTED } else { StatusCode::OK };
        self.content(shown, code, deleted.written.content)
    }

    async fn delete_collection(&mut self, context: &Context, shown: &Representation) -> Result<Response, Status> {
        let mut list = ListOptions::from_query(self.query).map_err(|error| Status::bad_request(error.to_string()))?;
        list.set_defaults();
        check("ListOptions", &list.validate())?;
        let options = self.delete_options().await?;
        let deleted = delete_collection(self.api, self.target, context, &options, &list).await?;
        represent::list(shown, self.target, &deleted.metadata, deleted.objects)
    }

    async fn delete_options(&mut self) -> Result<DeleteOptions, Status> {
        let bytes = self.request.read_body().await?;
        let options = if bytes.is_empty() {
            DeleteOptions::from_query(self.query)
        } else {
            DeleteOptions::from_value(&represent::read_delete_options(&self.request.head.headers, &bytes)?)
        };
        let options = options.map_err(|error| Status::bad_request(error.to_string()))?;
        check("DeleteOptions", &options.validate())?;
        Ok(options)
    }

    async fn body(&mut self) -> Result<Document, Status> {
        let bytes = self.request.read_body().await?;
        represent::read_body(&self.request.head.headers, &bytes, self.target)
    }

    fn is_scale(&self) -> bool {
        self.target.subresource().is_some_and(|subresource| matches!(subresource.part, Part::Scale(_)))
    }

    fn written(&self, shown: &Representation, written: Written) -> Result<Response, Status> {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        self.content(shown, code, written.content)
    }

    fn content(&self, shown: &Representation, code: StatusCode, content: Content) -> Result<Response, Status> {
        let wire = match content {
            Content::Stored(object) if self.is_scale() => {
                let object = form::value(&self.target.def, self.target.version(), &object)?;
                Wire::Value(scale::after(self.target, &object)?)
            }
            Content::Stored(object) => Wire::Bytes(form::wire(&self.target.def, self.target.version(), &object)?),
            Content::Shown(value) if self.is_scale() => Wire::Value(scale::after(self.target, &value)?),
            Content::Shown(value) => Wire::Value(value),
            Content::Status(status) => return represent::outcome(shown, code, &status),
        };
        represent::object(shown, self.target, code, wire)
    }
}

/// 415. For built-in resources upstream's router refuses the type, without a list; custom resources list the accepted types.
fn unsupported_patch(strategic: bool) -> Status {
    let mut status = Status::unsupported_media_type(PatchType::accepted(strategic));
    if strategic {
        status.message = "415: Unsupported Media Type".to_owned();
        status.details = Some(Box::default());
    }
    status
}

fn check(kind: &str, errors: &[rdd_meta::FieldError]) -> Result<(), Status> {
    if errors.is_empty() { Ok(()) } else { Err(options::invalid(kind, errors)) }
}

fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::CONTENT_TYPE)?.to_str().ok()
}

/// The field manager of a client that does not name one: the beginning of its user agent.
fn manager_of(agent: &str) -> String {
    const BYTES_MAX: usize = 128;
    let mut manager = String::new();
    for character in agent.split('/').next().unwrap_or_default().chars().filter(|found| go_text::is_print(*found)) {
        if manager.len() + character.len_utf8() > BYTES_MAX {
            break;
        }
        manager.push(character);
    }
    manager
}
