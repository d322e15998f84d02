"""Drives the fake Discord with discord.py: reads, downloads, answers, edits, is pressed; prints the download's SHA-256."""

import asyncio
import hashlib
import io
import sys

import discord
import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route


class Bot(discord.Client):
    def __init__(self) -> None:
        intents = discord.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=True)
        super().__init__(intents=intents, guild_ready_timeout=0.1, allowed_mentions=discord.AllowedMentions.none())
        self.failure: BaseException | None = None

    async def on_error(self, *_: object) -> None:
        self.failure = sys.exc_info()[1]
        await self.close()

    async def on_ready(self) -> None:
        assert self.user and self.user.name == "satchel", self.user
        assert self.application and self.application.flags.gateway_message_content_limited, self.application
        [guild] = self.guilds
        assert guild.name == "Home" and guild.filesize_limit == 10 * 1024 * 1024, guild
        assert [channel.name for channel in guild.text_channels] == ["general"], guild
        [thread] = guild.threads
        assert thread.name == "Taxes" and thread.parent.name == "general", thread

    async def on_message(self, message: discord.Message) -> None:
        if message.author == self.user:
            return
        [attachment] = message.attachments
        assert attachment.filename == "my_report.pdf" and attachment.title == "my report", attachment
        assert self.user in message.mentions, message.mentions
        content = await attachment.read()
        print(hashlib.sha256(content).hexdigest())

        async with message.channel.typing():
            file = discord.File(io.BytesIO(b"one"), "one.txt", description="the first")
            sent = await message.reply("**Saved** @everyone", file=file, mention_author=False)
        assert sent.reference and sent.reference.message_id == message.id, sent
        assert sent.attachments[0].description == "the first" and sent.attachments[0].size == 3, sent.attachments
        edited = await sent.edit(content="Saved", attachments=[*sent.attachments, discord.File(io.BytesIO(b"two"), "two.txt")])
        assert edited.edited_at and len(edited.attachments) == 2, edited
        assert [found.id async for found in message.channel.history(after=message)] == [sent.id]
        fetched = await message.channel.fetch_message(sent.id)
        assert fetched.content == "Saved" and fetched.nonce is None, fetched
        try:
            await message.channel.send("a" * 2001)
        except discord.HTTPException as refused:
            assert refused.status == 400 and refused.code == 50035, refused
            assert "2000 or fewer in length" in refused.text, refused.text
        else:
            raise AssertionError("a text that is too long is refused")
        try:
            await message.edit(content="mine")
        except discord.Forbidden as refused:
            assert refused.code == 50005, refused
        else:
            raise AssertionError("people's messages stay as they are")

        view = discord.ui.View()
        view.add_item(discord.ui.Button(label="Yes", custom_id="/yes", style=discord.ButtonStyle.success))
        asked = await message.channel.send("Sure?", view=view)
        again = await message.channel.send("gone")
        await again.delete()
        direct = await message.author.create_dm()
        await direct.send("between us")
        assert asked.components, asked

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        assert interaction.type == discord.InteractionType.component, interaction
        assert interaction.data and interaction.data["custom_id"] == "/yes", interaction.data
        await interaction.response.edit_message(content="Done", view=None)
        await self.close()


async def main(api_url: str, gateway: str, token: str) -> None:
    Route.BASE = f"{api_url}/api/v10"
    DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(gateway)
    async with Bot() as bot:
        await bot.start(token, reconnect=False)
    if bot.failure:
        raise bot.failure


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3]))
