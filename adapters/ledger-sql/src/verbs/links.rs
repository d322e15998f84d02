//! Revocations of the links to files, counted in the row of the file, so that every process reads the same count.

use satchel_domain::{AttachmentId, LinkRevocation};

use crate::{
    params, rows,
    session::{Session, VerbResult},
};

/// Counts one more revocation of the links to a file; `None` if there is no such file.
pub async fn revoke_links<S: Session>(db: &S, attachment: AttachmentId) -> VerbResult<Option<LinkRevocation>, S> {
    // The clock of another process may be ahead.
    let counted: Option<(i64, Option<i64>)> = db
        .find(
            "UPDATE attachments SET link_revocations = link_revocations + 1, \
             links_revoked_at = CASE WHEN links_revoked_at > $2 THEN links_revoked_at ELSE $2 END \
             WHERE id = $1 RETURNING link_revocations, links_revoked_at",
            params![attachment.0, db.now().0],
        )
        .await?;
    Ok(counted.map(|(count, at)| rows::link_revocation(count, at)).transpose()?.flatten())
}
