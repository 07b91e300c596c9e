"""The people who may open the dashboard: a pool of Cognito that nobody can join by himself."""

from __future__ import annotations

from aws_cdk import Duration, Fn, RemovalPolicy, Stack
from aws_cdk import aws_cognito as cognito
from constructs import Construct

from stacks.constructs.acknowledge import acknowledge

TOKEN_MINUTES = 60  # the balancer renews it while its session lasts
SESSION_HOURS = 12


class SignOnPool(Construct):
    """The pool, its page for signing in, and the dashboard as its client.

    - `pool`, `client`, `domain`: the parts, as a balancer needs them
    - `issuer`: the issuer of the pool's tokens
    """

    def __init__(self, scope: Construct, construct_id: str, *, host: str, environment: str, keep: bool) -> None:
        super().__init__(scope, construct_id)
        self.pool = cognito.UserPool(
            self,
            "Pool",
            self_sign_up_enabled=False,
            sign_in_aliases=cognito.SignInAliases(email=True),
            sign_in_case_sensitive=False,
            account_recovery=cognito.AccountRecovery.EMAIL_ONLY,
            mfa=cognito.Mfa.REQUIRED,
            mfa_second_factor=cognito.MfaSecondFactor(otp=True, sms=False),
            password_policy=cognito.PasswordPolicy(
                min_length=14,
                require_digits=True,
                require_lowercase=True,
                require_uppercase=True,
                require_symbols=True,
                temp_password_validity=Duration.days(3),
            ),
            deletion_protection=keep,
            removal_policy=RemovalPolicy.RETAIN if keep else RemovalPolicy.DESTROY,
        )
        why = "A second factor is required of everybody; the plan that watches for leaked passwords costs by the head."
        acknowledge(self.pool, {"AwsSolutions-COG3": why, "AwsSolutions-COG8": why})
        self.client = self.pool.add_client(
            "Dashboard",
            generate_secret=True,
            prevent_user_existence_errors=True,
            enable_token_revocation=True,
            auth_flows=cognito.AuthFlow(),
            access_token_validity=Duration.minutes(TOKEN_MINUTES),
            id_token_validity=Duration.minutes(TOKEN_MINUTES),
            refresh_token_validity=Duration.hours(SESSION_HOURS),
            o_auth=cognito.OAuthSettings(
                flows=cognito.OAuthFlows(authorization_code_grant=True),
                scopes=[cognito.OAuthScope.OPENID],
                # https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-authenticate-users.html
                callback_urls=[f"https://{host}/oauth2/idpresponse"],
            ),
        )
        stack = Stack.of(self)
        names = ["trackside", *([environment] if environment else []), stack.account]
        prefix = Fn.join("-", names)  # taken once in a region
        self.domain = self.pool.add_domain("Domain", cognito_domain=cognito.CognitoDomainOptions(domain_prefix=prefix))
        self.issuer = self.pool.user_pool_provider_url
