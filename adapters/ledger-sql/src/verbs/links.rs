//! Revocations of the links to files, counted in the row of the file, so that every process reads the same count.

use satchel_domain::{AttachmentId, LinkRevocation};

use crate::{
    params, rows,
    session::{Session, VerbResult},
};

/// Counts one more revocation of the links to a file; `None` if there is no such file.
pub async fn revoke_links<S: Session>(db: &S, attachment: AttachmentId) -> VerbResult<Option<LinkRevocation>, S> {
    let counted: Option<(i64,)> = db
        .find(
            "UPDATE attachments SET link_revocations = link_revocations + 1 WHERE id = $1 RETURNING link_revocations",
            params![attachment.0],
        )
        .await?;
    Ok(counted.map(|(count,)| rows::link_revocation(count)).transpose()?.flatten())
}
