//! The ends of turns and parts: in one trip to the database where all is as this process remembers it, or else looking
//! first (ADR 0009).

use std::sync::Arc;

use satchel_domain::Part;
use satchel_ports::ledger::{CompletedTurn, HistoryChange, Lease, LedgerError, SettleOutcome, Settlement};

use crate::{
    SqliteLedger,
    complete::{self, Way},
    error::is_otherwise,
    settle,
};

impl SqliteLedger {
    /// Completes a turn, and begins its first part if it may be.
    pub(crate) async fn end_turn(&self, lease: &Lease, completed: &CompletedTurn) -> Result<Option<Part>, LedgerError> {
        let history = self.held.take_history(lease);
        let as_expected = complete::can_be_as_expected(completed) && self.held.is_quiet(lease);
        let done = match as_expected {
            true => Some(self.complete(lease, completed, Way::AsExpected).await).filter(|done| !is_otherwise(done)),
            false => None,
        };
        let done = match done {
            Some(done) => done,
            None => self.complete(lease, completed, Way::Looking).await,
        };
        let (begun, change) = match done {
            Ok((begun, change)) => (Ok(begun), Some(change)),
            Err(error) => (Err(error), None),
        };
        self.held.put_history(lease, history, change);
        if let Ok(begun) = &begun {
            self.held.completed(lease, begun.as_ref().map(|part| part.id), completed.plan.parts.len());
        }
        begun
    }

    /// Settles a part, and begins the next or gives the lane back.
    pub(crate) async fn end_part(&self, lease: &Lease, settlement: &Settlement) -> Result<SettleOutcome, LedgerError> {
        let ends = settlement.children.is_empty() && settlement.notice.is_none();
        let is_last = ends && self.held.is_last(lease, settlement.part.id);
        if is_last {
            let settled = self.settle_last(lease, &settlement.part).await;
            if !is_otherwise(&settled) {
                settled?;
                self.held.given_back(lease);
                return Ok(SettleOutcome { next: None, released: true });
            }
        }
        let (process, of, settlement) = (Arc::clone(&self.process), lease.clone(), settlement.clone());
        let settled = self
            .writer
            .write("settling a part", move |s| {
                Box::pin(async move { settle::settle_part(s, &process, &of, &settlement).await })
            })
            .await?;
        if settled.released {
            self.held.given_back(lease);
        }
        Ok(settled)
    }

    pub(crate) async fn complete(
        &self,
        lease: &Lease,
        completed: &CompletedTurn,
        way: Way,
    ) -> Result<(Option<Part>, HistoryChange), LedgerError> {
        let (process, lease, completed) = (Arc::clone(&self.process), lease.clone(), completed.clone());
        self.writer
            .write("completing a turn", move |s| {
                Box::pin(async move { complete::complete_turn(s, &process, &lease, completed, way).await })
            })
            .await
    }

    pub(crate) async fn settle_last(&self, lease: &Lease, part: &Part) -> Result<(), LedgerError> {
        let (lease, part) = (lease.clone(), part.clone());
        self.writer
            .write("settling the last part", move |s| {
                Box::pin(async move {
                    settle::settle_last(s, &lease, &part);
                    Ok(())
                })
            })
            .await
    }
}
