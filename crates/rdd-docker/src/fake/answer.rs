//! The fake engine's request handler: from a request to its response.

use std::{
    collections::BTreeMap,
    io,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::{
    Shared,
    containers::NewContainer,
    faults::{Effect, lock},
    query::Query,
    refusal::{Done, Refusal},
    route::{Route, Target},
    stream::{self, Body},
    wire,
    world::{Status, World},
};

/// The maximum size of a body that is read; the rest of an imported archive is discarded.
const BODY_BYTES_MAX: usize = 64 << 20;

/// The connection closes without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the fake engine hangs up")]
pub(super) struct HungUp;

/// A parsed request.
struct Asked {
    target: Target,
    query: Query,
    body: Bytes,
    minor: u32,
}

type Answer = Result<Response<Body>, Refusal>;

/// Handles a request and applies its faults.
pub(super) async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Body>, HungUp> {
    let target = Target::of(request.method(), request.uri().path());
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let is_head = request.method() == Method::HEAD;
    let (route, object) = (target.route, target.object.clone());
    let entered = shared.faults.enter(route);
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    for hook in shared.faults.hooks_of(route) {
        shared.look(|world| hook(world, &object));
    }
    let (mut last_words, mut refused, mut stalls) = (false, None, Duration::ZERO);
    for effect in shared.faults.take(route, &object) {
        match effect {
            Effect::Refuse(refusal) => refused = Some(refusal),
            Effect::Delay(delay) => tokio::time::sleep(delay).await,
            Effect::Hang => std::future::pending().await,
            Effect::HangUp => return Err(HungUp),
            Effect::DoAndHangUp => last_words = true,
            Effect::Stall(delay) => stalls = delay,
        }
    }
    let answer = match refused {
        Some(refusal) => Err(refusal),
        None => minor(&shared, &target).and_then(|minor| respond(&shared, &Asked { target, query, body, minor })),
    };
    if !stalls.is_zero() {
        tokio::time::sleep(stalls).await;
    }
    drop(entered);
    if last_words {
        return Err(HungUp);
    }
    let mut response = answer.unwrap_or_else(|refusal| json_with(refusal.status, &json!({"message": refusal.message})));
    let (_, newest) = *lock(&shared.versions);
    let date = SystemTime::from(shared.look(|world| world.time()));
    let headers = response.headers_mut();
    // Set here, because the header must show the engine's clock.
    if let Ok(date) = httpdate::fmt_http_date(date).parse() {
        headers.insert(http::header::DATE, date);
    }
    headers.insert("Ostype", http::HeaderValue::from_static("linux"));
    if let Ok(version) = format!("1.{newest}").parse() {
        headers.insert("Api-Version", version);
    }
    if is_head {
        *response.body_mut() = empty();
    }
    Ok(response)
}

/// The minor API version of a request, if the engine supports it.
fn minor(shared: &Shared, target: &Target) -> Result<u32, Refusal> {
    let (oldest, newest) = *lock(&shared.versions);
    match target.version {
        None => Ok(newest),
        Some((1, minor)) if (oldest..=newest).contains(&minor) => Ok(minor),
        Some((major, minor)) if (major, minor) < (1, oldest) => Err(Refusal::bad(format!(
            "client version {major}.{minor} is too old. Minimum supported API version is 1.{oldest}, please upgrade your client to a newer version"
        ))),
        Some((major, minor)) => Err(Refusal::bad(format!(
            "client version {major}.{minor} is too new. Maximum supported API version is 1.{newest}"
        ))),
    }
}

fn respond(shared: &Arc<Shared>, asked: &Asked) -> Answer {
    match asked.target.route {
        Route::Events => Ok(stream_with("application/json", stream::events(shared, &asked.query, asked.minor)?)),
        Route::ContainerLogs => {
            let (body, tty) = stream::logs(shared, &asked.target.object, &asked.query)?;
            let kind = if tty || asked.minor < 42 { "raw" } else { "multiplexed" };
            Ok(stream_with(&format!("application/vnd.docker.{kind}-stream"), body))
        }
        Route::Ping => Ok(text("OK")),
        Route::Version => Ok(ok(&version(shared))),
        _ => shared.look(|world| at_once(world, asked)),
    }
}

fn version(shared: &Shared) -> Value {
    let (oldest, newest) = *lock(&shared.versions);
    json!({
        "Version": wire::VERSION, "ApiVersion": format!("1.{newest}"), "MinAPIVersion": format!("1.{oldest}"),
        "Platform": {"Name": ""}, "Components": [{"Name": "Engine", "Version": wire::VERSION, "Details": {}}],
        "GitCommit": "", "GoVersion": "", "Os": "linux", "Arch": "amd64", "KernelVersion": "", "BuildTime": "",
    })
}

/// Handles a request that needs only the current state.
fn at_once(world: &mut World, asked: &Asked) -> Answer {
    let (object, query) = (asked.target.object.as_str(), &asked.query);
    match asked.target.route {
        Route::Info => Ok(ok(&wire::info(world))),
        Route::ContainerList | Route::ImageList | Route::VolumeList => list(world, asked),
        Route::ContainerInspect => {
            let id = world.find_container(object)?;
            Ok(ok(&wire::container(&world.containers[&id])))
        }
        Route::ContainerCreate => create_container(world, asked),
        Route::ContainerStart => world.start_container(object).map(done),
        Route::ContainerStop => world.stop_container(object).map(done),
        Route::ContainerRestart => world.restart_container(object).map(done),
        Route::ContainerKill => world.kill_container(object, query.get("signal").unwrap_or("9")).map(done),
        Route::ContainerPause => world.pause_container(object).map(done),
        Route::ContainerUnpause => world.unpause_container(object).map(done),
        Route::ContainerRename => world.rename_container(object, query.get("name").unwrap_or_default()).map(done),
        Route::ContainerRemove => world.remove_container(object, query.is_set("force"), query.is_set("v")).map(done),
        Route::ContainerPrune => Ok(ok(&prune_containers(world))),
        Route::ImageInspect => {
            let id = world.find_image(object)?;
            Ok(ok(&wire::image(&world.images[&id], asked.minor)))
        }
        Route::ImageTag => {
            let tag = query.get("tag").map_or_else(String::new, |tag| format!(":{tag}"));
            world.tag_image(object, &format!("{}{tag}", query.get("repo").unwrap_or_default()))?;
            Ok(with_status(StatusCode::CREATED))
        }
        Route::ImageRemove => Ok(ok(&world.remove_image(object, query.is_set("force"))?)),
        Route::ImageCreate => import(world, query),
        Route::ImagePrune => Ok(ok(&prune_images(world))),
        Route::VolumeInspect => {
            let volume = world.volumes.get(object).ok_or_else(|| Refusal::no_volume(object))?;
            Ok(ok(&wire::volume(volume)))
        }
        Route::VolumeCreate => {
            let body: Value = parse(&asked.body)?;
            let name = body["Name"].as_str().unwrap_or_default().to_owned();
            let volume = world.create_volume(&name, strings(&body["Labels"]), strings(&body["DriverOpts"]))?;
            Ok(json_with(StatusCode::CREATED, &wire::volume(&volume)))
        }
        Route::VolumeRemove => world.remove_volume(object, query.is_set("force")).map(|_| done(Done::Changed)),
        _ => Err(Refusal::missing("page not found")),
    }
}

fn list(world: &World, asked: &Asked) -> Answer {
    let filters = asked.query.filters()?;
    Ok(ok(&match asked.target.route {
        Route::ContainerList => {
            let all = asked.query.is_set("all") || filters.contains_key("status");
            let wanted = |status: Status| filters.get("status").is_none_or(|wanted| wanted.contains(status.as_str()));
            let shown = world
                .containers
                .values()
                .filter(|container| (all || container.state.status.is_alive()) && wanted(container.state.status));
            shown.map(wire::container_row).collect()
        }
        Route::ImageList => world.images.values().map(|image| wire::image_row(image, asked.minor)).collect(),
        _ => {
            let volumes: Vec<Value> = world.volumes.values().map(wire::volume).collect();
            json!({"Volumes": volumes, "Warnings": null})
        }
    }))
}

fn create_container(world: &mut World, asked: &Asked) -> Answer {
    let body: Value = parse(&asked.body)?;
    let mut command = list_of_strings(&body["Entrypoint"]);
    command.extend(list_of_strings(&body["Cmd"]));
    let image = body["Image"].as_str().unwrap_or_default().to_owned();
    if command.is_empty() {
        world.find_image(&image)?;
        return Err(Refusal::bad("No command specified"));
    }
    let host = &body["HostConfig"];
    let new = NewContainer {
        name: asked.query.get("name").unwrap_or_default().to_owned(),
        image,
        command,
        labels: strings(&body["Labels"]),
        ports: ports(&body["ExposedPorts"], &host["PortBindings"]),
        tty: body["Tty"] == true,
        auto_remove: host["AutoRemove"] == true,
        volumes: volumes(&body["Volumes"], host),
    };
    let id = world.create_container(new)?;
    Ok(json_with(StatusCode::CREATED, &json!({"Id": id, "Warnings": []})))
}

fn ports(exposed: &Value, bound: &Value) -> BTreeMap<String, Vec<(String, String)>> {
    let keys = |value: &Value| value.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect::<Vec<_>>();
    let mut ports: BTreeMap<String, Vec<(String, String)>> =
        keys(exposed).into_iter().map(|port| (port, Vec::new())).collect();
    for (port, bindings) in bound.as_object().into_iter().flatten() {
        let text = |binding: &Value, name: &str| binding[name].as_str().unwrap_or_default().to_owned();
        let bindings = bindings.as_array().into_iter().flatten();
        let published = bindings.map(|binding| (text(binding, "HostIp"), text(binding, "HostPort"))).collect();
        ports.insert(port.clone(), published);
    }
    ports
}

fn volumes(anonymous: &Value, host: &Value) -> Vec<(String, String)> {
    let places = anonymous.as_object().into_iter().flat_map(|map| map.keys());
    let mut volumes: Vec<(String, String)> = places.map(|place| (String::new(), place.clone())).collect();
    for bind in list_of_strings(&host["Binds"]) {
        // An absolute path is a bind mount, not a volume.
        if let Some((name, place)) = bind.split_once(':').filter(|(name, _)| !name.starts_with('/')) {
            volumes.push((name.to_owned(), place.split(':').next().unwrap_or_default().to_owned()));
        }
    }
    for mount in host["Mounts"].as_array().into_iter().flatten().filter(|mount| mount["Type"] == "volume") {
        let text = |name: &str| mount[name].as_str().unwrap_or_default().to_owned();
        volumes.push((text("Source"), text("Target")));
    }
    volumes
}

fn import(world: &mut World, query: &Query) -> Answer {
    if query.get("fromSrc").is_none() {
        return Err(Refusal::missing("the fake engine has no registry to pull from"));
    }
    let tag = query.get("tag").map_or_else(String::new, |tag| format!(":{tag}"));
    let tag = query.get("repo").map(|repository| format!("{repository}{tag}"));
    let change = query.get("changes").and_then(|change| change.strip_prefix("LABEL ")?.split_once('='));
    let labels = change.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let id = world.import_image(tag.as_deref(), labels)?;
    Ok(ok(&json!({"status": id})))
}

fn prune_containers(world: &mut World) -> Value {
    let dead = world.containers.values().filter(|container| !container.state.status.is_alive());
    let ids: Vec<String> = dead.map(|container| container.id.clone()).collect();
    let gone: Vec<&String> = ids.iter().filter(|id| world.remove_container(id, false, false).is_ok()).collect();
    json!({"ContainersDeleted": if gone.is_empty() { Value::Null } else { json!(gone) }, "SpaceReclaimed": 0})
}

fn prune_images(world: &mut World) -> Value {
    let dangling = world.images.values().filter(|image| image.tags.is_empty());
    let ids: Vec<String> = dangling.map(|image| image.id.clone()).collect();
    let removed = ids.iter().filter_map(|id| world.remove_image(id, false).ok());
    let gone: Vec<Value> = removed.flat_map(|list| list.as_array().cloned().unwrap_or_default()).collect();
    json!({"ImagesDeleted": if gone.is_empty() { Value::Null } else { json!(gone) }, "SpaceReclaimed": 0})
}

fn parse(body: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::bad(format!("invalid JSON: {error}")))
}

fn strings(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

fn list_of_strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|word| word.as_str().map(str::to_owned)).collect()
}

fn done(done: Done) -> Response<Body> {
    with_status(match done {
        Done::Changed => StatusCode::NO_CONTENT,
        Done::Already => StatusCode::NOT_MODIFIED,
    })
}

fn empty() -> Body {
    full(Bytes::new())
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| -> io::Error { match never {} }).boxed_unsync()
}

fn with_status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(empty());
    *response.status_mut() = status;
    response
}

fn text(text: &'static str) -> Response<Body> {
    Response::new(full(Bytes::from_static(text.as_bytes())))
}

fn ok(value: &Value) -> Response<Body> {
    json_with(StatusCode::OK, value)
}

fn json_with(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(full(format!("{value}\n").into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn stream_with(kind: &str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    if let Ok(kind) = kind.parse() {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    response
}
