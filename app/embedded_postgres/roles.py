"""The service's database and its two logins: one owns the tables, the other owns nothing."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.embedded_postgres.errors import PostgresFailed

OWNER_ROLE = "carrel_owner"
RUNTIME_ROLE = "carrel_runtime"

_CREATE_ROLES_AND_DATABASE = r"""
\getenv database CARREL_NAME
\getenv owner_secret CARREL_OWNER_SECRET
\getenv runtime_secret CARREL_RUNTIME_SECRET
-- Concurrent runs would fail on the same catalogue rows. A login of a SQL view must not be able to take this lock.
revoke connect on database postgres from public;
select pg_advisory_lock(4927613308);
select format('create role %I', name)
    from unnest(array['carrel_owner', 'carrel_runtime']) as name
    where not exists (select from pg_roles where rolname = name) \gexec
alter role carrel_owner login nosuperuser nocreatedb createrole noreplication nobypassrls
    password :'owner_secret';
alter role carrel_runtime login nosuperuser nocreatedb nocreaterole noreplication nobypassrls
    password :'runtime_secret';
select format('create database %I owner carrel_owner', :'database')
    where not exists (select from pg_database where datname = :'database') \gexec
"""
_CREATE_EXTENSION = "create extension if not exists vector;"
# Rights that every login has until a superuser revokes them. Neither a SQL view's login nor the service needs them.
# docs/how-to/read-with-sql.md has the same statements for other servers.
_CLOSE_TO_LOGINS = r"""
revoke connect on database postgres, template1 from public;
grant set on parameter temp_file_limit to carrel_owner;
select format('revoke execute on function %s from public', oid::regprocedure) from pg_proc
 where pronamespace = 'pg_catalog'::regnamespace and has_function_privilege('public', oid, 'execute')
   and (proname in ('lo_create', 'lo_creat', 'lo_from_bytea', 'lo_put', 'lowrite', 'lo_open', 'lo_truncate',
                    'lo_truncate64')
        or proname ~ '^pg_(try_)?advisory_') \gexec
"""


@dataclass(frozen=True, slots=True)
class DatabaseUrls:
    """URLs of one database. ``owner`` is for migrations and index maintenance, ``app`` for everything else."""

    owner: str
    app: str


@dataclass(frozen=True, slots=True)
class Superuser:
    """The superuser's login. The methods run psql and block, so no event loop is needed."""

    psql: Path
    host: str
    port: int
    user: str
    password: str

    def ensure_database(self, name: str, owner_password: str, runtime_password: str) -> None:
        """Create the roles, the database and its extension if they are missing, and revoke rights of other logins.

        Args:
            name: Name of the database.
            owner_password: Password of the tables' owner.
            runtime_password: Password of the service's role, which owns no tables.

        Raises:
            PostgresFailed: A script failed.
        """
        variables = {
            "CARREL_NAME": name,
            "CARREL_OWNER_SECRET": owner_password,
            "CARREL_RUNTIME_SECRET": runtime_password,
        }
        self._run_script("postgres", _CREATE_ROLES_AND_DATABASE, variables)
        self._run_script(name, _CREATE_EXTENSION + _CLOSE_TO_LOGINS, {})

    def _run_script(self, database: str, script: str, variables: Mapping[str, str]) -> None:
        environment = {
            "PATH": os.defpath,
            "LC_ALL": "C",
            "PGHOST": self.host,
            "PGPORT": str(self.port),
            "PGUSER": self.user,
            "PGPASSWORD": self.password,
            "PGDATABASE": database,
            "PGCLIENTENCODING": "UTF8",
            "PGOPTIONS": "-c client_min_messages=warning",
            **variables,
        }
        result = subprocess.run(  # noqa: S603
            [str(self.psql), "--no-psqlrc", "--no-password", "--quiet", "--set=ON_ERROR_STOP=1", "--file=-"],
            input=script,
            capture_output=True,
            text=True,
            env=environment,
            cwd="/",
            check=False,
        )
        if result.returncode:
            reason = (result.stderr.strip().splitlines() or [f"status {result.returncode}"])[0]
            raise PostgresFailed(f"the database {database} could not be prepared: {reason}")
