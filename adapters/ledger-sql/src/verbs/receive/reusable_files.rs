//! The stored files of a queued message, which an edit in its place has, too.

use satchel_domain::FileReference;
use satchel_ports::ledger::Transcription;
use uuid::Uuid;

use super::earlier_version::platform_name;
use crate::{
    parameters::Json,
    params,
    session::{Session, VerbResult},
};

/// A stored file, and what was heard in it.
pub(super) struct ReusableFile {
    reference: FileReference,
    attachment: Uuid,
    transcription: Option<Transcription>,
}

impl ReusableFile {
    /// Reads those of a message, in their order.
    pub(super) async fn read<S: Session>(db: &S, message: i64) -> VerbResult<Vec<Self>, S> {
        let stored: Vec<(Json<FileReference>, Uuid, Option<Json<Transcription>>)> = db
            .all(
                "SELECT reference, attachment, transcription FROM inbox_files \
                 WHERE message = $1 AND state = 'stored' AND attachment IS NOT NULL ORDER BY position",
                params![message],
            )
            .await?;
        let files = stored.into_iter().map(|(Json(reference), attachment, transcription)| {
            let transcription = transcription.map(|Json(transcription)| transcription);
            Self { reference, attachment, transcription }
        });
        Ok(files.collect())
    }

    /// Makes it the file of a message at this position.
    pub(super) async fn restore<S: Session>(&self, db: &S, message: i64, position: i64) -> VerbResult<(), S> {
        db.run(
            "UPDATE inbox_files SET state = 'stored', attachment = $3, transcription = $4 \
             WHERE message = $1 AND position = $2 AND state = 'waiting'",
            params![message, position, self.attachment, self.transcription.as_ref().map(Json)],
        )
        .await?;
        Ok(())
    }
}

/// Finds the files among those of an edit, by what the platform calls them. Returns each with its position there.
pub(super) fn match_files(mut stored: Vec<ReusableFile>, files: &[FileReference]) -> Vec<(i64, ReusableFile)> {
    let mut matches = Vec::new();
    for (position, file) in (0..).zip(files) {
        let is_same = |known: &ReusableFile| platform_name(&known.reference) == platform_name(file);
        if let Some(index) = stored.iter().position(is_same) {
            matches.push((position, stored.remove(index)));
        }
    }
    matches
}
