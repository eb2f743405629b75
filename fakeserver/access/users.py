"""The users and the roles of a deployment, each of a database."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from fakeserver.access.privileges import merged
from fakeserver.access.roles import RoleName, built_in
from fakeserver.access.scram import MECHANISMS, SHA_1, make_keys
from fakeserver.errors import CommandError
from mongowire.codes import ErrorCode
from mongowire.ids import uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bson import Binary

    from fakeserver.access import UserSpec
    from fakeserver.access.privileges import Privilege
    from fakeserver.access.scram import ScramKeys
    from mongowire.ports import Rng


EXTERNAL: Final = "$external"
_USER_EXISTS: Final = 51003
_ROLE_EXISTS: Final = 51002
_INVALID_MODIFICATION: Final = ErrorCode.INVALID_ROLE_MODIFICATION
_NO_USERS_IN: Final = ("local", "config")


@dataclass(frozen=True, slots=True)
class User:
    """A user as it is stored: keys by mechanism, never a password."""

    name: str
    db: str
    id: Binary
    roles: tuple[RoleName, ...] = ()
    credentials: Mapping[str, ScramKeys] = field(default_factory=dict, repr=False)
    custom_data: Any = None

    @property
    def mechanisms(self) -> list[str]:
        """The mechanisms by which the user can authenticate."""
        return ["external"] if self.db == EXTERNAL else list(self.credentials)

    def document(self, *, credentials: bool = False, custom_data: bool = True) -> dict[str, Any]:
        """Return the user as `usersInfo` does."""
        found: dict[str, Any] = {
            "_id": f"{self.db}.{self.name}",
            "userId": self.id,
            "user": self.name,
            "db": self.db,
        }
        if credentials:
            found["credentials"] = {name: keys.document() for name, keys in self.credentials.items()}
        if custom_data and self.custom_data is not None:
            found["customData"] = self.custom_data
        return found | {"roles": [role.document() for role in self.roles], "mechanisms": self.mechanisms}


@dataclass(frozen=True, slots=True)
class UserRole:
    """A role that somebody defined: its own privileges, and those of the roles that it has."""

    role: RoleName
    privileges: tuple[Privilege, ...] = ()
    roles: tuple[RoleName, ...] = ()


@dataclass(frozen=True, slots=True)
class Password:
    """A password on its way to becoming keys. Its representation does not show it."""

    text: str = field(repr=False)
    mechanisms: Sequence[str] = MECHANISMS
    digested: bool = False


class UserStore:
    """Every user and role of a deployment. All changes come through here.

    `iterations` returns how often a mechanism's keys are hashed, in the server's parameters.
    """

    def __init__(self, rng: Rng, iterations: Callable[[str], int]) -> None:
        self._rng = rng
        self._iterations = iterations
        self._users: dict[tuple[str, str], User] = {}
        self._roles: dict[RoleName, UserRole] = {}
        self.version = 0
        """Counts the changes, so that a cache made of an older state is recognised."""

    def __len__(self) -> int:
        return len(self._users)

    def state(self) -> tuple[Mapping[tuple[str, str], User], Mapping[RoleName, UserRole], int]:
        """Return all users and roles, and the version, as `restore` takes them."""
        return dict(self._users), dict(self._roles), self.version

    def restore(
        self, users: Mapping[tuple[str, str], User], roles: Mapping[RoleName, UserRole], version: int
    ) -> bool:
        """Take back what `state` returned; return whether anything has changed since then."""
        if self.version == version:
            return False
        self._users, self._roles = dict(users), dict(roles)
        self.version += 1
        return True

    # Users.

    def find(self, name: str, db: str) -> User | None:
        """Return a user, or None."""
        return self._users.get((name, db))

    def all(self) -> list[User]:
        """Return every user, by database and name."""
        return [self._users[key] for key in sorted(self._users, key=lambda key: (key[1], key[0]))]

    def seed(self, spec: UserSpec) -> None:
        """Add a user of the deployment's description. Raises `CommandError`."""
        roles = []
        for each in spec.roles:
            if isinstance(each, str):
                here = RoleName(each, spec.db)
                roles.append(RoleName(each, "admin") if self.role(here) is None else here)
            else:
                roles.append(RoleName(each["role"], each["db"]))
        password = None if spec.password is None else Password(spec.password, spec.mechanisms)
        self.add(spec.name, spec.db, password, tuple(roles))

    def add(
        self,
        name: str,
        db: str,
        password: Password | None,
        roles: Sequence[RoleName],
        custom_data: Any = None,
    ) -> None:
        """Create a user. Raises `CommandError` 51003 for a name that is taken, 31 for an unknown role."""
        if not name:
            raise CommandError(ErrorCode.BAD_VALUE, "User document needs 'user' field to be non-empty")
        if db in _NO_USERS_IN:
            raise CommandError(ErrorCode.BAD_VALUE, f"Cannot create users in the {db} database")
        if (name, db) in self._users:
            raise CommandError(_USER_EXISTS, f'User "{name}@{db}" already exists')
        self.require_roles(roles)
        keys = {} if password is None else self._keys(name, password)
        self.version += 1
        self._users[name, db] = User(name, db, uuid(self._rng), tuple(roles), keys, custom_data)

    def change(
        self,
        name: str,
        db: str,
        *,
        password: Password | None = None,
        roles: Sequence[RoleName] | None = None,
        custom_data: Any = None,
    ) -> None:
        """Change the fields that are not None. Raises `CommandError` 11 UserNotFound or 31 RoleNotFound."""
        user = self.require(name, db)
        if roles is not None:
            self.require_roles(roles)
            user = replace(user, roles=tuple(roles))
        if password is not None:
            user = replace(user, credentials=self._keys(name, password))
        if custom_data is not None:
            user = replace(user, custom_data=custom_data)
        self.version += 1
        self._users[name, db] = user

    def keep_mechanisms(self, name: str, db: str, mechanisms: Sequence[str]) -> None:
        """Drop the keys of a user's other mechanisms. Raises `CommandError` 2 for one that has no keys."""
        user = self.require(name, db)
        if not set(mechanisms) <= set(user.credentials):
            raise CommandError(
                ErrorCode.BAD_VALUE,
                "mechanisms field must be a subset of previously set mechanisms",
            )
        kept = {each: user.credentials[each] for each in user.credentials if each in mechanisms}
        self.version += 1
        self._users[name, db] = replace(user, credentials=kept)

    def drop(self, name: str, db: str) -> None:
        """Forget a user. Raises `CommandError` 11 UserNotFound."""
        self.version += 1
        if self._users.pop((name, db), None) is None:
            raise CommandError(ErrorCode.USER_NOT_FOUND, f"User '{name}@{db}' not found")

    def drop_all(self, db: str) -> int:
        """Forget the users of a database; return how many they were."""
        self.version += 1
        gone = [key for key in self._users if key[1] == db]
        for key in gone:
            del self._users[key]
        return len(gone)

    def require(self, name: str, db: str) -> User:
        """Return a user. Raises `CommandError` 11 UserNotFound."""
        user = self.find(name, db)
        if user is None:
            raise CommandError(ErrorCode.USER_NOT_FOUND, f"Could not find user {name}@{db}")
        return user

    def _keys(self, name: str, password: Password) -> dict[str, ScramKeys]:
        if password.digested and tuple(password.mechanisms) != (SHA_1,):
            raise CommandError(ErrorCode.BAD_VALUE, "Use of SCRAM-SHA-256 requires undigested passwords")
        return {
            mechanism: make_keys(
                mechanism,
                name,
                password.text,
                iterations=self._iterations(mechanism),
                rng=self._rng,
                digested=password.digested,
            )
            for mechanism in password.mechanisms
        }

    # Roles.

    def role(self, name: RoleName) -> UserRole | None:
        """Return a role, defined or built in, or None."""
        defined = self._roles.get(name)
        if defined is not None:
            return defined
        privileges = built_in(name)
        return None if privileges is None else UserRole(name, privileges)

    def roles_of(self, db: str) -> list[UserRole]:
        """Return the defined roles of a database, by name."""
        return [self._roles[name] for name in sorted(self._roles) if name.db == db]

    def require_roles(self, names: Iterable[RoleName]) -> None:
        """Raise `CommandError` 31 RoleNotFound for the first role that does not exist."""
        for name in names:
            if self.role(name) is None:
                raise CommandError(ErrorCode.ROLE_NOT_FOUND, f"Could not find role: {name}")

    def add_role(self, role: UserRole) -> None:
        """Define a role. Raises `CommandError` 51002 for a name that is taken, 31 for an unknown role."""
        if self.role(role.role) is not None:
            raise CommandError(_ROLE_EXISTS, f'Role "{role.role}" already exists')
        self._check_grants(role.role, role.privileges, role.roles)
        self.version += 1
        self._roles[role.role] = role

    def change_role(
        self,
        name: RoleName,
        privileges: Sequence[Privilege] | None,
        roles: Sequence[RoleName] | None,
    ) -> None:
        """Change the fields of a defined role that are not None. Raises `CommandError` 31 RoleNotFound."""
        role = self.require_defined(name)
        self._check_grants(name, privileges or (), roles or ())
        self.version += 1
        self._roles[name] = UserRole(
            name,
            role.privileges if privileges is None else tuple(privileges),
            role.roles if roles is None else tuple(roles),
        )

    def _check_grants(
        self, name: RoleName, privileges: Iterable[Privilege], roles: Sequence[RoleName]
    ) -> None:
        """Refuse what a role cannot have. Raises `CommandError` 31, and 49 InvalidRoleModification."""
        self.require_roles(roles)
        if name.db != "admin":
            here = f"Roles on the '{name.db}' database cannot be granted"
            if any(each.db != name.db for each in roles):
                raise CommandError(_INVALID_MODIFICATION, f"{here} roles from other databases")
            if any(each.resource.db != name.db for each in privileges):
                raise CommandError(
                    _INVALID_MODIFICATION, f"{here} privileges that target other databases or the cluster"
                )
        for role in roles:
            if name in self.inherited([role]):
                raise CommandError(
                    _INVALID_MODIFICATION,
                    f"Granting {role} to {name} would introduce a cycle in the role graph.",
                )

    def drop_roles(self, db: str) -> int:
        """Forget the defined roles of a database; return how many they were."""
        gone = self.roles_of(db)
        for role in gone:
            self.drop_role(role.role)
        return len(gone)

    def drop_role(self, name: RoleName) -> None:
        """Forget a defined role, also where users and roles have it. Raises `CommandError` 31."""
        self.require_defined(name)
        self.version += 1
        del self._roles[name]
        for role in list(self._roles.values()):
            self._roles[role.role] = replace(role, roles=tuple(each for each in role.roles if each != name))
        for key, user in self._users.items():
            self._users[key] = replace(user, roles=tuple(each for each in user.roles if each != name))

    def require_defined(self, name: RoleName) -> UserRole:
        """Return a defined role. Raises `CommandError` 31 RoleNotFound, 2 for one that is built in."""
        if built_in(name) is not None:
            raise CommandError(ErrorCode.BAD_VALUE, f"{name} is a built-in role and cannot be modified")
        role = self._roles.get(name)
        if role is None:
            raise CommandError(ErrorCode.ROLE_NOT_FOUND, f"Role {name} not found")
        return role

    def inherited(self, names: Iterable[RoleName]) -> list[RoleName]:
        """Return the roles and all that they have, each once."""
        found: dict[RoleName, None] = {}
        left = list(names)
        while left:
            name = left.pop(0)
            if name not in found:
                found[name] = None
                role = self.role(name)
                left += () if role is None else role.roles
        return list(found)

    def privileges(self, names: Iterable[RoleName]) -> tuple[Privilege, ...]:
        """Return what roles permit, one privilege for each resource."""
        roles = (self.role(name) for name in self.inherited(names))
        return tuple(merged(each for role in roles if role is not None for each in role.privileges))


# A user that a deployment is started with.
