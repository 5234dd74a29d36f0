#!/bin/bash
# Run once by the Postgres image, as superuser, on an empty data directory: the database, its extension, and two logins.
# carrel_owner owns the database and makes tables and roles, as on a managed Postgres; carrel_runtime owns nothing.
set -eu

: "${POSTGRES_OWNER_PASSWORD:?}" "${POSTGRES_RUNTIME_PASSWORD:?}"

# The passwords reach psql by its environment and its own quoting: never by the command line or the shell's.
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
