//! Which stream is put into, and how it is reached: from the arguments, or from a worker's configuration.

use std::path::Path;

use super::{
    super::{
        ConfigArgs,
        exit::{Exit, Failure},
    },
    Args,
};
use crate::config::{Access, Problem, Stream, StreamArn, StreamName};

/// A stream and how to reach it.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) arn: Option<String>,
    pub(super) access: Access,
}

pub(super) fn target(args: &Args) -> Result<Target, Failure> {
    let usage = |problem: Problem| Failure::new(Exit::Usage, format!("--stream: {problem}"));
    let mut target = match (&args.config, &args.stream) {
        (Some(file), name) => of_config(file, &args.sets, name.as_deref())?,
        (None, Some(arn)) if arn.starts_with("arn:") => {
            let arn = StreamArn::new(arn).map_err(usage)?;
            Target {
                name: arn.name().to_string(),
                access: Access {
                    region: Some(arn.region().clone()),
                    ..Access::default()
                },
                arn: Some(arn.as_str().to_owned()),
            }
        }
        (None, name) => Target {
            name: StreamName::new(name.as_deref().unwrap_or_default())
                .map_err(usage)?
                .to_string(),
            arn: None,
            access: Access::default(),
        },
    };
    if let Some(region) = &args.region {
        target.access.region = Some(region.clone());
    }
    if let Some(endpoint) = &args.endpoint {
        target.access.endpoint = Some(endpoint.clone());
    }
    Ok(target)
}

fn of_config(file: &Path, sets: &[String], name: Option<&str>) -> Result<Target, Failure> {
    let config = ConfigArgs {
        config: file.to_owned(),
        sets: sets.to_vec(),
    }
    .load()?;
    let named = |stream: &&Stream| name.is_none_or(|name| stream.name.as_str() == name);
    let Some(stream) = config.streams.iter().find(named) else {
        let names: Vec<_> = config
            .streams
            .iter()
            .map(|stream| stream.name.as_str())
            .collect();
        let text = format!(
            "{} has no stream {:?}; it has {}",
            file.display(),
            name.unwrap_or_default(),
            names.join(", ")
        );
        return Err(Failure::new(Exit::Usage, text));
    };
    Ok(Target {
        name: stream.name.to_string(),
        arn: stream.arn.as_ref().map(|arn| arn.as_str().to_owned()),
        access: stream.access.clone(),
    })
}
