//! A scenario: a sequence of requests, stored as lines of JSON that people can read and edit.

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rdd_testkit::api::Ask;
use serde_json::{Value, json};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Scenario {
    pub(crate) requests: Vec<Ask>,
}

impl Scenario {
    pub(crate) fn join(scenarios: &[Self]) -> Self {
        Self { requests: scenarios.iter().flat_map(|scenario| scenario.requests.clone()).collect() }
    }

    /// Formats the scenario with one request per line. A body that is not UTF-8 is encoded in base64.
    pub(crate) fn to_text(&self) -> String {
        self.requests.iter().map(|ask| format!("{}\n", line(ask))).collect()
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let requests = lines.map(|(number, line)| {
            let value: Value = serde_json::from_str(line).with_context(|| format!("line {}", number + 1))?;
            request(&value).with_context(|| format!("line {}: a request has a method and a path", number + 1))
        });
        Ok(Self { requests: requests.collect::<Result<_>>()? })
    }

    /// A name derived from the content: the FNV-1a hash in hexadecimal.
    pub(crate) fn name(&self) -> String {
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        format!("{:016x}", self.to_text().bytes().fold(0xcbf2_9ce4_8422_2325, fold))
    }
}

fn line(ask: &Ask) -> Value {
    let mut value = json!({"method": ask.method, "path": ask.path});
    let headers = ask.headers.iter().map(|(name, value)| json!([name, String::from_utf8_lossy(value)]));
    let headers: Vec<Value> = headers.collect();
    if !headers.is_empty() {
        value["headers"] = headers.into();
    }
    match std::str::from_utf8(&ask.body) {
        Ok("") => {}
        Ok(text) => value["body"] = text.into(),
        Err(_) => value["base64"] = STANDARD.encode(&ask.body).into(),
    }
    value
}

fn request(value: &Value) -> Option<Ask> {
    let mut ask = Ask::new(value["method"].as_str()?, value["path"].as_str()?);
    for header in value["headers"].as_array().into_iter().flatten() {
        ask = ask.header(header[0].as_str()?, header[1].as_str()?);
    }
    ask.body = match value["base64"].as_str() {
        Some(text) => STANDARD.decode(text).ok()?,
        None => value["body"].as_str().unwrap_or_default().into(),
    };
    Some(ask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_reads_back_as_it_was() {
        let text = Ask::new("PATCH", "/a?b=c").body("application/json", "{\"a\":\n1}");
        let bytes = Ask::new("POST", "/x").body("application/vnd.kubernetes.protobuf", vec![0xff, 0, 1]);
        let scenario = Scenario { requests: vec![text, bytes, Ask::new("GET", "/")] };
        assert_eq!(Scenario::parse(&scenario.to_text()).unwrap(), scenario);
        assert_eq!(scenario.to_text().lines().count(), 3);
        assert!(Scenario::parse("{\"method\": \"GET\"}").is_err());
        assert!(Scenario::parse("GET /").is_err());
    }
}
