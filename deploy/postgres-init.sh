#!/bin/bash
# The Postgres image runs this script once as superuser, on an empty data directory. It creates the database, its
# extension and two roles. carrel_owner owns the database and creates tables and roles, as on a managed Postgres.
# carrel_runtime owns nothing.
set -eu

: "${POSTGRES_OWNER_PASSWORD:?}" "${POSTGRES_RUNTIME_PASSWORD:?}"

# psql reads the passwords from its environment and quotes them itself. They are never on a command line.
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\getenv owner_password POSTGRES_OWNER_PASSWORD
\getenv runtime_password POSTGRES_RUNTIME_PASSWORD
create role carrel_owner login nosuperuser nocreatedb createrole noreplication nobypassrls password :'owner_password';
create role carrel_runtime login nosuperuser nocreatedb nocreaterole noreplication nobypassrls
    password :'runtime_password';
create database carrel owner carrel_owner;
revoke all on database carrel from public;
grant connect on database carrel to carrel_runtime;
\connect carrel
create extension vector;
SQL
