//! Which bucket, where, and with which credentials: read from a URL and the usual variables.

use std::{path::PathBuf, time::Duration};

use object_store::path::Path;
use reqwest::Url;
use secrecy::SecretString;

/// How long a request that fails for a passing reason is tried again.
const RETRY_TIMEOUT: Duration = Duration::from_secs(40);

/// The region of servers that have none.
const DEFAULT_REGION: &str = "us-east-1";

/// A bucket and how it is reached.
#[derive(Debug, Clone)]
pub struct S3Settings {
    pub(crate) bucket: String,
    /// The beginning of all keys, which may be empty.
    pub(crate) prefix: Path,
    pub(crate) region: String,
    /// A server other than that of Amazon.
    pub(crate) endpoint: Option<String>,
    /// `None` takes those that the machine's role gives.
    pub(crate) credentials: Option<S3Keys>,
    /// A PEM file with certificates to trust besides those of the machine.
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) retry_timeout: Duration,
}

#[derive(Debug, Clone)]
pub(crate) struct S3Keys {
    pub(crate) key_id: String,
    pub(crate) secret: SecretString,
    pub(crate) token: Option<SecretString>,
}

/// Why a URL names no bucket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum S3SettingsError {
    #[error("it has to be s3://BUCKET or s3://BUCKET/PREFIX")]
    NotS3,
    #[error(
        "the name of the bucket must have 3 to 63 of the characters a-z, 0-9, `-` and `.`; credentials before it must \
         have their `@`, `/`, `?` and `#` escaped"
    )]
    BucketName,
    #[error("the part after the bucket is no prefix for keys: it must not have empty parts, `.` or `..`")]
    Prefix,
    #[error("after the `?` it takes only `region` and `endpoint`, each once")]
    Query,
    #[error("`endpoint` must be https://HOST or http://HOST, without credentials, path or query")]
    Endpoint,
    #[error("credentials in it must be KEY:SECRET@, with both escaped as in URLs")]
    Credentials,
    #[error("the region is missing: add `?region=…`, or set AWS_REGION")]
    RegionMissing,
    #[error("the credentials are incomplete: set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")]
    CredentialsIncomplete,
    #[error("the credentials are missing: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")]
    CredentialsMissing,
}

/// The parts of a URL, without the variables.
struct UrlParts {
    bucket: String,
    prefix: Path,
    region: Option<String>,
    endpoint: Option<String>,
    keys: Option<(String, String)>,
}

impl S3Settings {
    /// Checks a URL `s3://[KEY:SECRET@]BUCKET[/PREFIX][?region=…&endpoint=…]`.
    ///
    /// # Errors
    /// When it can name no bucket, whatever the variables are.
    pub fn check_url(url: &str) -> Result<(), S3SettingsError> {
        parse_url(url).map(drop)
    }

    /// Reads a URL. What it leaves open is read from the variables that other programs of S3 know, too.
    ///
    /// # Errors
    /// When it names no bucket, or something is missing.
    pub fn parse(url: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, S3SettingsError> {
        let UrlParts { bucket, prefix, region, endpoint, keys } = parse_url(url)?;
        let variable = |name| variable(name).filter(|value| !value.trim().is_empty());
        let endpoint =
            match endpoint.or_else(|| variable("AWS_ENDPOINT_URL_S3")).or_else(|| variable("AWS_ENDPOINT_URL")) {
                Some(endpoint) => Some(check_endpoint(&endpoint)?),
                None => None,
            };
        let region = region.or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = match (region, &endpoint) {
            (Some(region), _) => region,
            (None, Some(_)) => DEFAULT_REGION.to_owned(),
            (None, None) => return Err(S3SettingsError::RegionMissing),
        };
        let keys = match keys {
            Some((key_id, secret)) => Some((key_id, secret, None)),
            None => match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
                (Some(key_id), Some(secret)) => Some((key_id, secret, variable("AWS_SESSION_TOKEN"))),
                (None, None) => None,
                _ => return Err(S3SettingsError::CredentialsIncomplete),
            },
        };
        if keys.is_none() && endpoint.is_some() {
            // Roles of machines are Amazon's.
            return Err(S3SettingsError::CredentialsMissing);
        }
        let credentials =
            keys.map(|(key_id, secret, token)| S3Keys { key_id, secret: secret.into(), token: token.map(Into::into) });
        let ca_file = variable("AWS_CA_BUNDLE").map(PathBuf::from);
        Ok(Self { bucket, prefix, region, endpoint, credentials, ca_file, retry_timeout: RETRY_TIMEOUT })
    }

    /// Trusts the certificates in a PEM file besides those of the machine.
    #[must_use]
    pub fn with_ca_file(self, file: PathBuf) -> Self {
        Self { ca_file: Some(file), ..self }
    }

    /// Tries a request again for this long instead of the standard time.
    #[must_use]
    pub fn with_retry_timeout(self, retry_timeout: Duration) -> Self {
        Self { retry_timeout, ..self }
    }

    /// The bucket and the server, for messages; without credentials.
    pub(crate) fn address(&self) -> String {
        format!("the bucket `{}` at {}", self.bucket, self.server())
    }

    /// The URL of the bucket itself.
    pub(crate) fn bucket_url(&self) -> String {
        format!("{}/{}", self.server(), self.bucket)
    }

    fn server(&self) -> String {
        self.endpoint.clone().unwrap_or_else(|| format!("https://s3.{}.amazonaws.com", self.region))
    }
}

fn parse_url(url: &str) -> Result<UrlParts, S3SettingsError> {
    let rest = url.strip_prefix("s3://").ok_or(S3SettingsError::NotS3)?;
    let (address, query) = match rest.split_once('?') {
        Some((address, query)) => (address, Some(query)),
        None => (rest, None),
    };
    let (keys, address) = match address.rsplit_once('@') {
        Some((keys, address)) => (Some(parse_keys(keys)?), address),
        None => (None, address),
    };
    let (bucket, prefix) = address.split_once('/').unwrap_or((address, ""));
    let is_valid = (3..=63).contains(&bucket.len())
        && bucket.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'));
    if !is_valid {
        return Err(S3SettingsError::BucketName);
    }
    let prefix = Path::parse(prefix.trim_end_matches('/')).map_err(|_| S3SettingsError::Prefix)?;
    let (mut region, mut endpoint) = (None, None);
    if let Some(query) = query {
        let query = Url::parse(&format!("s3://bucket?{query}")).map_err(|_| S3SettingsError::Query)?;
        if query.fragment().is_some() {
            return Err(S3SettingsError::Query);
        }
        for (name, value) in query.query_pairs() {
            let target = match &*name {
                "region" => &mut region,
                "endpoint" => &mut endpoint,
                _ => return Err(S3SettingsError::Query),
            };
            if value.is_empty() || target.replace(value.into_owned()).is_some() {
                return Err(S3SettingsError::Query);
            }
        }
    }
    let endpoint = endpoint.map(|endpoint| check_endpoint(&endpoint)).transpose()?;
    Ok(UrlParts { bucket: bucket.to_owned(), prefix, region, endpoint, keys })
}

fn parse_keys(keys: &str) -> Result<(String, String), S3SettingsError> {
    let (key_id, secret) = keys.split_once(':').ok_or(S3SettingsError::Credentials)?;
    let decode = |text| decode_percent(text).filter(|text| !text.is_empty()).ok_or(S3SettingsError::Credentials);
    Ok((decode(key_id)?, decode(secret)?))
}

fn decode_percent(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let decoded = match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            byte => byte,
        };
        bytes.push(decoded);
    }
    String::from_utf8(bytes).ok()
}

/// The address of a server, without the slash at its end.
fn check_endpoint(endpoint: &str) -> Result<String, S3SettingsError> {
    let url = Url::parse(endpoint).map_err(|_| S3SettingsError::Endpoint)?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none();
    match is_plain {
        true => Ok(endpoint.trim_end_matches('/').to_owned()),
        false => Err(S3SettingsError::Endpoint),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn parse(url: &str, variables: &[(&str, &str)]) -> Result<S3Settings, S3SettingsError> {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        S3Settings::parse(url, find)
    }

    const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];

    #[test]
    fn url_comes_before_variables() {
        let variables = [
            KEYS[0],
            KEYS[1],
            ("AWS_SESSION_TOKEN", "token"),
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ENDPOINT_URL", "https://other"),
        ];
        let from_variables = parse("s3://files", &variables).unwrap();
        assert_eq!(from_variables.region, "eu-west-1");
        assert_eq!(from_variables.address(), "the bucket `files` at https://other");
        let keys = from_variables.credentials.unwrap();
        assert_eq!((keys.key_id.as_str(), keys.secret.expose_secret()), ("key", "secret"));
        assert_eq!(keys.token.unwrap().expose_secret(), "token");

        let url = "s3://AK:a%2Fb+c@files/some/prefix/?region=eu-north-1&endpoint=http://127.0.0.1:9000/";
        let from_url = parse(url, &variables).unwrap();
        assert_eq!((from_url.region.as_str(), from_url.prefix.as_ref()), ("eu-north-1", "some/prefix"));
        assert_eq!(from_url.address(), "the bucket `files` at http://127.0.0.1:9000");
        let keys = from_url.credentials.unwrap();
        assert_eq!((keys.key_id.as_str(), keys.secret.expose_secret()), ("AK", "a/b+c"));
        assert!(keys.token.is_none(), "a token belongs to the keys beside it");
    }

    #[test]
    fn incomplete_settings_name_what_is_missing() {
        use S3SettingsError::*;
        for (url, variables, error) in [
            ("s3://files", &KEYS[..], RegionMissing),
            ("s3://files?region=eu-west-1", &KEYS[..1], CredentialsIncomplete),
            ("s3://files?endpoint=https://minio", &[], CredentialsMissing),
            ("s3://files", &[("AWS_ENDPOINT_URL_S3", "minio:9000")], Endpoint),
            ("s3://Files", &[], BucketName),
            ("s3://ke?y:secret@files", &[], BucketName),
            ("s3://files/a//b", &[], Prefix),
            ("s3://files/a/../b", &[], Prefix),
            ("s3://files?regio=eu-west-1", &[], Query),
            ("s3://files?region=a&region=b", &[], Query),
            ("s3://files?endpoint=ftp://host", &[], Endpoint),
            ("s3://files?endpoint=https://key:secret@host", &[], Endpoint),
            ("s3://key@files", &[], Credentials),
            ("s3://key:%zz@files", &[], Credentials),
            ("https://files", &[], NotS3),
        ] {
            assert_eq!(parse(url, variables).unwrap_err(), error, "{url}");
        }
        assert!(parse("s3://files?region=eu-west-1", &[]).unwrap().credentials.is_none(), "the machine's role");
    }

    #[test]
    fn secrets_are_not_printed() {
        let settings = parse("s3://AK:canary@files?region=eu-west-1", &[]).unwrap();
        assert!(!format!("{settings:?}").contains("canary"));
    }
}
