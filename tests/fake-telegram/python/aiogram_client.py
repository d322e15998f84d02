"""Drives the fake Bot API with aiogram: polls, downloads, answers, sends and edits; prints the download's SHA-256."""

import asyncio
import hashlib
import io
import sys

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.enums import ChatAction
from aiogram.exceptions import TelegramBadRequest
from aiogram.types import (
    BotCommand,
    BufferedInputFile,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputMediaDocument,
    ReplyParameters,
)


async def main(api_url: str, token: str, chat: int) -> None:
    session = AiohttpSession(api=TelegramAPIServer.from_base(api_url))
    async with Bot(token, session=session) as bot:
        me = await bot.get_me()
        assert me.is_bot and me.username, me
        await bot.set_my_commands([BotCommand(command="files", description="Lists files")])

        [update] = await bot.get_updates(timeout=1, allowed_updates=["message", "edited_message", "callback_query"])
        message = update.message
        assert message.document.file_name == "report.pdf", message
        assert message.caption_entities[0].type == "bot_command", message
        assert await bot.get_updates(offset=update.update_id + 1, timeout=0) == []

        found = await bot.get_file(message.document.file_id)
        content = io.BytesIO()
        await bot.download_file(found.file_path, content)
        print(hashlib.sha256(content.getvalue()).hexdigest())

        await bot.send_chat_action(chat, ChatAction.UPLOAD_DOCUMENT)
        button = InlineKeyboardButton(text="Yes", callback_data="/yes")
        sent = await bot.send_message(
            chat,
            "<b>Saved</b> &amp; <code>done</code>",
            parse_mode="HTML",
            reply_parameters=ReplyParameters(message_id=message.message_id, allow_sending_without_reply=True),
            reply_markup=InlineKeyboardMarkup(inline_keyboard=[[button]]),
        )
        assert sent.reply_to_message.message_id == message.message_id, sent
        assert [entity.type for entity in sent.entities] == ["bold", "code"], sent
        edited = await bot.edit_message_text("Saved", chat_id=chat, message_id=sent.message_id)
        assert edited.edit_date, edited
        try:
            await bot.edit_message_text("Saved", chat_id=chat, message_id=sent.message_id)
        except TelegramBadRequest as refused:
            assert "message is not modified" in refused.message, refused
        else:
            raise AssertionError("an edit that changes nothing is refused")

        document = await bot.send_document(chat, BufferedInputFile(b"one", "one.txt"), caption="<i>one</i>", parse_mode="HTML")
        assert document.document.file_size == 3, document
        again = await bot.send_document(chat, document.document.file_id)
        assert again.document.file_unique_id == document.document.file_unique_id, again
        album = await bot.send_media_group(
            chat,
            [
                InputMediaDocument(media=BufferedInputFile(b"two", "two.txt"), caption="two"),
                InputMediaDocument(media=BufferedInputFile(b"three", "three.txt")),
            ],
        )
        assert album[0].media_group_id == album[1].media_group_id, album
        voice = await bot.send_voice(chat, BufferedInputFile(b"OggS", "voice.ogg"), duration=3)
        assert voice.voice.duration == 3, voice
        assert await bot.delete_message(chat, again.message_id)


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
