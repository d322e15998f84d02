"""Serves S3 with one bucket and two users, of whom one may only read, until standard input ends.

The arguments are the bucket's name and, for HTTPS, the files of a certificate and its key.

Prints the port and the users' keys as one line of JSON. From then on signatures and permissions are checked.
"""

import json
import logging
import os
import ssl
import sys

# Nothing of this machine's own account is read.
os.environ.update(AWS_ACCESS_KEY_ID="setup", AWS_SECRET_ACCESS_KEY="setup", AWS_EC2_METADATA_DISABLED="true")

import boto3
from moto import settings
from moto.core.authorization import ActionAuthenticatorMixin
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
port = server.get_host_and_port()[1]


def client(service):
    return boto3.client(service, endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1")


def add_user(name, actions):
    iam = client("iam")
    iam.create_user(UserName=name)
    statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName=name, PolicyName="s3", PolicyDocument=policy)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {"key_id": key["AccessKeyId"], "secret": key["SecretAccessKey"]}


writer = add_user("writer", ["s3:*"])
reader = add_user("reader", ["s3:ListBucket", "s3:GetObject"])
client("s3").create_bucket(Bucket=sys.argv[1])

if len(sys.argv) > 2:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[2], sys.argv[3])
    server._server.socket = context.wrap_socket(server._server.socket, server_side=True)

settings.INITIAL_NO_AUTH_ACTION_COUNT = ActionAuthenticatorMixin.request_count = 0
print(json.dumps({"port": port, "writer": writer, "reader": reader}), flush=True)
sys.stdin.read()
