-- Links and replies from before a revocation are recognized by its count, not by a clock.
ALTER TABLE attachments DROP COLUMN links_revoked_at;
