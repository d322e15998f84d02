-- Satchel's own role, as the server's administrator makes it at the first start: it owns its schema, and nothing else.
\set password `cat /run/secrets/satchel_password`
CREATE ROLE satchel LOGIN PASSWORD :'password';
CREATE SCHEMA satchel AUTHORIZATION satchel;
