"""People of a pool of Cognito, and the tokens that it gives them."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from contextlib import suppress

from trackside_localaccount import LocalAccount

PASSWORD = "Correct-Horse-7-Battery"


def create_client(account: LocalAccount, pool: str) -> str:
    flows = ["ALLOW_ADMIN_USER_PASSWORD_AUTH"]
    made = account.client("cognito-idp").create_user_pool_client(
        UserPoolId=pool, ClientName="dashboard", ExplicitAuthFlows=flows
    )
    return str(made["UserPoolClient"]["ClientId"])


def sign_in(
    account: LocalAccount, pool: str, client: str, *, name: str = "ada@example.com", client_secret: str = ""
) -> Mapping[str, str]:
    """Return the tokens of a person, who is made if need be."""
    cognito = account.client("cognito-idp")
    with suppress(cognito.exceptions.UsernameExistsException):
        cognito.admin_create_user(UserPoolId=pool, Username=name)
        cognito.admin_set_user_password(UserPoolId=pool, Username=name, Password=PASSWORD, Permanent=True)
    secret = {"USERNAME": name, "PASSWORD": PASSWORD}
    if client_secret:  # https://docs.aws.amazon.com/cognito/latest/developerguide/signing-up-users-in-your-app.html
        digest = hmac.digest(client_secret.encode(), f"{name}{client}".encode(), "sha256")
        secret["SECRET_HASH"] = base64.b64encode(digest).decode()
    answer = cognito.admin_initiate_auth(
        UserPoolId=pool, ClientId=client, AuthFlow="ADMIN_USER_PASSWORD_AUTH", AuthParameters=secret
    )
    tokens: Mapping[str, str] = answer["AuthenticationResult"]
    return tokens
