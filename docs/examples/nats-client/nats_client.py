"""Sends a request with a file to Satchel over NATS, prints the reply, and saves its files.

The conversation is SENDER, or a name below it: SENDER/NAME.

usage: nats_client.py URL SENDER CONVERSATION TEXT FILE OUTPUT_DIRECTORY
"""

import asyncio
import base64
import json
import pathlib
import sys
import uuid

import nats

TIMEOUT = 60


async def main(url, sender, conversation, text, file, output):
    # Responses of the server come to an inbox of this program, which no other one can read.
    client = await nats.connect(url, inbox_prefix=f"_INBOX_{sender}")
    jetstream = client.jetstream()
    file, output = pathlib.Path(file), pathlib.Path(output)
    # Each name of the conversation is a token of the subject.
    tokens = conversation.replace(".", "=").replace("/", ".")
    # Subscribe first, so that nothing is missed.
    request_id = str(uuid.uuid4())
    receipts = await client.subscribe(f"satchel.v1.receipt.{sender}.{request_id}")
    events = await client.subscribe(f"satchel.v1.*.nats.{tokens}.>")
    request = {
        "v": 1,
        "type": "cmd.turn.request",
        # A retry with the same id is the same request.
        "id": request_id,
        "conversation": f"nats:{conversation}",
        "text": text,
        "files": [{"filename": file.name, "dataBase64": base64.b64encode(file.read_bytes()).decode()}],
    }
    # JetStream has stored the request when this returns.
    await jetstream.publish(f"satchel.v1.cmd.turn.request.{sender}", json.dumps(request).encode())
    receipt = json.loads((await receipts.next_msg(timeout=TIMEOUT)).data)
    if receipt["type"] == "evt.turn.request.rejected":
        sys.exit(f"rejected: {receipt['reason']}")
    await follow(events, receipt["turn"], output)
    await client.close()


async def follow(events, turn, output):
    """Prints what belongs to a turn until its response has arrived."""
    seen, expected = set(), None
    while expected is None or seen != expected:
        event = json.loads((await events.next_msg(timeout=TIMEOUT)).data)
        kind = event["type"]
        if event["v"] > 1 or event.get("turn", event.get("call", {}).get("turn")) != turn:
            continue
        if kind == "evt.agent.tool.started":
            print("tool:", event["tool"])
        elif kind == "evt.turn.completed":
            response = event["response"]
            expected = {file["filename"] for file in response["attachments"]}
            expected |= {"text"} if response["text"] else set()
        elif kind == "evt.agent.output.response.text":
            seen.add("text")
            print("text:", event["text"])
        elif kind == "evt.agent.output.response.binary":
            seen.add(event["filename"])
            if "dataBase64" in event:
                # The name is harmless: it holds no path.
                (output / event["filename"]).write_bytes(base64.b64decode(event["dataBase64"]))
            print("file:", event["filename"], event["mimeType"], event["bytes"])


asyncio.run(main(*sys.argv[1:]))
