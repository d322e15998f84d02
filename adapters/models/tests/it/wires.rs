//! Texts, tools, ids, names and thoughts, on every wire.

use satchel_fake_model::{
    FinishReason, ModelReply, ModelWire, RecordedPart, RecordedTurn, ReplyPiece, RequestStatus, ScriptedCall,
};
use satchel_ports::{
    ModelMessage,
    language_model::{ModelToolCall, TokenUsage},
};
use serde_json::{Value, json};

use crate::stage::{Stage, ask, renamed, request, tool, user};

#[tokio::test]
async fn text_arrives_in_deltas_with_final_usage() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let pieces = ["Привет, ", "that is ", "🎒."].map(|text| ReplyPiece::Text(text.into()));
        stage.server.reply(ModelReply::pieces(pieces).usage(321, 45));
        let answer = ask(&stage.model(wire), request(vec![user("hello", Vec::new())])).await;
        assert_eq!(answer.texts, ["Привет, ", "that is ", "🎒."], "{wire:?} {:?}", answer.error);
        assert_eq!(answer.usage, Some(TokenUsage { input_tokens: 321, output_tokens: 45 }), "{wire:?}");
        assert!(answer.done && answer.calls.is_empty(), "{wire:?}");
        let asked = stage.server.last();
        assert_eq!(asked.status, RequestStatus::Answered, "{wire:?}");
        assert_eq!((asked.system.as_str(), asked.user_text().as_str()), ("Be brief.", "hello"), "{wire:?}");
        assert_eq!(asked.model, wire.model(), "{wire:?}");
    }
}

/// Three steps: two calls at once, one of them to a tool with a dot in its name; one call with text before it; the end.
#[tokio::test]
async fn a_tool_loop_of_several_steps_goes_through() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let model = stage.model(wire);
        stage.server.reply(ModelReply::calls([
            ScriptedCall::new("file_read", r#"{"path": "/shared/a.txt", "size": 3}"#),
            ScriptedCall::new("attachment_save_all", r#"{"path": "/tmp"}"#),
        ]));
        stage.server.reply(ModelReply::pieces([
            ReplyPiece::Text("One more. ".into()),
            ReplyPiece::Call(ScriptedCall::new("file_read", "{\"path\": \"b \\\"quoted\\\" ü\"}")),
        ]));
        stage.server.reply(ModelReply::text("Done."));

        let mut messages = vec![
            user("earlier", Vec::new()),
            ModelMessage::Assistant { text: "Yes?".into(), calls: Vec::new() },
            ModelMessage::Note { text: "A receipt.".into() },
            user("do it", Vec::new()),
            ModelMessage::Note { text: "No files.".into() },
        ];
        let first = ask(&model, request(messages.clone())).await;
        assert_eq!(first.error, None, "{wire:?}");
        let names: Vec<_> = first.calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["file_read", "attachment.save_all"], "{wire:?}: in order, under Satchel's names");
        assert_eq!(first.calls[0].arguments, json!({"path": "/shared/a.txt", "size": 3}), "{wire:?}");

        let calls = renamed(&first.calls, 1);
        messages.push(ModelMessage::Assistant { text: first.text(), calls: calls.clone() });
        messages.push(tool(&calls[0], "abc", Vec::new()));
        messages.push(tool(&calls[1], "", Vec::new()));
        let second = ask(&model, request(messages.clone())).await;
        assert_eq!(second.error, None, "{wire:?}");
        assert_eq!((second.text().as_str(), second.calls.len()), ("One more. ", 1), "{wire:?}");
        assert_eq!(second.calls[0].arguments, json!({"path": "b \"quoted\" ü"}), "{wire:?}");

        let calls = renamed(&second.calls, 2);
        messages.push(ModelMessage::Assistant { text: second.text(), calls: calls.clone() });
        messages.push(tool(&calls[0], "error: no such file", Vec::new()));
        messages.push(user("and hurry", Vec::new()));
        let third = ask(&model, request(messages)).await;
        assert_eq!((third.text().as_str(), third.error), ("Done.", None), "{wire:?}");

        let asked = stage.server.last();
        let results: Vec<String> = asked.results().iter().map(|result| result.text()).collect();
        assert_eq!(results, ["abc", "done, without text", "error: no such file"], "{wire:?}");
        let called: Vec<String> = asked.calls().into_iter().map(|call| call.name).collect();
        assert_eq!(called, ["file_read", "attachment_save_all", "file_read"], "{wire:?}");
        assert_eq!(asked.tools, ["file_read", "attachment_save_all", "web_search_"], "{wire:?}");
        assert_eq!(
            asked.user_text(),
            "earlier\n[[satchel.note]]A receipt.[[/satchel.note]]\n\ndo it\n\n[[satchel.note]]No files.[[/satchel.note]]\
             \nand hurry",
            "{wire:?}: notes stand where they were"
        );
        if wire != ModelWire::Ollama {
            let ids = |ids: Vec<Option<String>>| ids.into_iter().collect::<Option<Vec<_>>>();
            let asked_ids = ids(asked.calls().into_iter().map(|call| call.id).collect());
            assert_eq!(asked_ids, ids(asked.results().into_iter().map(|result| result.id).collect()), "{wire:?}");
            assert_eq!(asked_ids.unwrap(), ["call00001", "call00002", "call00003"], "{wire:?}");
        }
    }
}

#[tokio::test]
async fn invalid_json_arguments_stay_text_and_return_wrapped() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let model = stage.model(wire);
        stage.server.reply(ModelReply::calls([
            ScriptedCall::new("file_read", r#"{"path": "/sha"#),
            ScriptedCall::new("file_read", ""),
            ScriptedCall::new("make_coffee", r#"{"sugar": 2}"#),
        ]));
        let answer = ask(&model, request(vec![user("go", Vec::new())])).await;
        assert_eq!(answer.error, None, "{wire:?}");
        let arguments: Vec<Value> = answer.calls.iter().map(|call| call.arguments.clone()).collect();
        assert_eq!(arguments, [json!(r#"{"path": "/sha"#), json!({}), json!({"sugar": 2})], "{wire:?}");
        assert_eq!(answer.calls[2].name, "make_coffee", "{wire:?}: what the model made up stays as it is");

        let calls = renamed(&answer.calls, 1);
        let mut messages =
            vec![user("go", Vec::new()), ModelMessage::Assistant { text: String::new(), calls: calls.clone() }];
        messages.extend(calls.iter().map(|call| tool(call, "error: not like this", Vec::new())));
        let answer = ask(&model, request(messages)).await;
        assert_eq!(answer.error, None, "{wire:?}");
        assert_eq!(stage.server.last().calls()[0].arguments, json!({"not_an_object": r#"{"path": "/sha"#}), "{wire:?}");
    }
}

/// What comes from elsewhere is mended: providers refuse all of this.
#[tokio::test]
async fn a_conversation_with_gaps_is_taken() {
    let call =
        |id: &str, name: &str| ModelToolCall { id: id.into(), name: name.into(), arguments: json!({"path": "x"}) };
    let long = "x".repeat(90);
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let messages = vec![
            ModelMessage::Assistant { text: "I begin.".into(), calls: vec![call("a", "gone.tool")] },
            ModelMessage::Assistant { text: String::new(), calls: Vec::new() },
            user("  ", Vec::new()),
            ModelMessage::Tool { call: "nobody".into(), text: "orphan".into(), attachments: Vec::new() },
            ModelMessage::Assistant {
                text: "two".into(),
                calls: vec![call(&long, "file_read"), call("c", "file_read"), call("c", "file_read")],
            },
            ModelMessage::Tool { call: "c".into(), text: "second first".into(), attachments: Vec::new() },
            ModelMessage::Tool { call: "c".into(), text: "twice".into(), attachments: Vec::new() },
            user("", Vec::new()),
        ];
        let answer = ask(&stage.model(wire), request(messages)).await;
        assert_eq!(answer.error, None, "{wire:?}");
        let asked = stage.server.last();
        let results: Vec<String> = asked.results().iter().map(|result| result.text()).collect();
        let unanswered = "error: no answer was recorded; it may have taken effect";
        assert_eq!(results, [unanswered, unanswered, "second first"], "{wire:?}");
        assert!(
            asked.user_text().contains("orphan") && asked.user_text().contains("twice"),
            "{wire:?}: nothing is dropped"
        );
    }
}

#[tokio::test]
async fn an_empty_request_is_taken() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let mut empty = request(vec![user("", Vec::new())]);
        empty.system = String::new();
        empty.tools = [].into();
        let answer = ask(&stage.model(wire), empty).await;
        assert_eq!((answer.text().as_str(), answer.error), ("Hello from the fake model.", None), "{wire:?}");
    }
}

#[tokio::test]
async fn signs_of_life_are_no_pieces() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        stage.server.reply(ModelReply::pieces([
            ReplyPiece::Ping,
            ReplyPiece::Text("a".into()),
            ReplyPiece::Ping,
            ReplyPiece::Text("b".into()),
        ]));
        let answer = ask(&stage.model(wire), request(vec![user("hi", Vec::new())])).await;
        assert_eq!((answer.texts, answer.error), (vec!["a".to_owned(), "b".to_owned()], None), "{wire:?}");
    }
}

#[tokio::test]
async fn an_answer_at_its_longest_says_so() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        stage.server.reply(ModelReply::text("Once upon a ti").ending(FinishReason::Length));
        let answer = ask(&stage.model(wire), request(vec![user("tell", Vec::new())])).await;
        assert_eq!((answer.done, answer.error.as_ref()), (true, None), "{wire:?}");
        assert_eq!(answer.texts[0], "Once upon a ti", "{wire:?}");
        assert!(answer.texts[1].contains("reached its output limit"), "{wire:?} {:?}", answer.texts);
    }
}

/// The same call twice is two calls, also where a provider gives them no ids of their own.
#[tokio::test]
async fn equal_calls_stay_apart() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let call = || ScriptedCall::new("file_read", r#"{"path": "a"}"#);
        stage.server.reply(ModelReply::calls([call(), call(), call()]));
        let answer = ask(&stage.model(wire), request(vec![user("go", Vec::new())])).await;
        assert_eq!((answer.calls.len(), answer.error), (3, None), "{wire:?}");
    }
}

/// `-max`, `-medium` and `-high` are parts of real names; the vendor's client would cut them off.
#[tokio::test]
async fn model_is_requested_by_its_full_name() {
    for (wire, name) in [
        (ModelWire::OpenAiChat, "qwen-max"),
        (ModelWire::OpenAiChat, "org/mistral-medium"),
        (ModelWire::OpenAiResponses, "gpt-5.1-codex-max"),
        (ModelWire::Anthropic, "claude-proxy-high"),
        (ModelWire::Gemini, "gemini-2.5-flash-low"),
        (ModelWire::Ollama, "qwen3-max:8b"),
    ] {
        let stage = Stage::new().await;
        stage.server.add_model(name);
        let mut settings = stage.settings(wire);
        settings.model = Some(name.into());
        let answer = ask(&stage.model_with(settings), request(vec![user("hi", Vec::new())])).await;
        assert_eq!(answer.error, None, "{wire:?} {name}");
        let asked = stage.server.last();
        assert_eq!(asked.model, name, "{wire:?}");
        for effort in ["reasoning_effort", "reasoning", "thinking", "output_config", "think", "generationConfig"] {
            assert_eq!(asked.body.get(effort), None, "{wire:?} {name} {effort}");
        }
    }
}

/// A key is asked of nobody who runs a server of his own.
#[tokio::test]
async fn server_without_key_is_called_without_one() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        stage.server.ask_for_no_key();
        let mut settings = stage.settings(wire);
        settings.api_key = None;
        let answer = ask(&stage.model_with(settings), request(vec![user("hi", Vec::new())])).await;
        assert_eq!((answer.text().as_str(), answer.error), ("Hello from the fake model.", None), "{wire:?}");
    }
}

/// Gemini 3 refuses a call without its signature, Anthropic a thought without it, DeepSeek a call without its thought;
/// the port carries none of these.
#[tokio::test]
async fn signatures_survive_a_round_of_tools() {
    for (wire, name) in [
        (ModelWire::Gemini, "gemini-3-flash-preview"),
        (ModelWire::Anthropic, "claude-haiku-4-5"),
        (ModelWire::OpenAiChat, "deepseek-reasoner"),
    ] {
        let stage = Stage::new().await;
        stage.server.add_model(name);
        let mut settings = stage.settings(wire);
        settings.model = Some(name.into());
        let model = stage.model_with(settings.clone());
        stage.server.reply(ModelReply::calls([
            ScriptedCall::new("file_read", r#"{"path": "a"}"#).signed("c2lnbmF0dXJl"),
            ScriptedCall::new("file_read", r#"{"path": "b"}"#),
        ]));
        let first = ask(&model, request(vec![user("go", Vec::new())])).await;
        let calls = renamed(&first.calls, 1);
        let messages = vec![
            user("go", Vec::new()),
            ModelMessage::Assistant { text: String::new(), calls: calls.clone() },
            tool(&calls[0], "x", Vec::new()),
            tool(&calls[1], "y", Vec::new()),
        ];
        let second = ask(&model, request(messages.clone())).await;
        assert_eq!(second.error, None, "{wire:?}");
        let asked = stage.server.last();
        let signatures: Vec<String> =
            asked.calls().into_iter().filter_map(|call| call.signature).chain(asked.thoughts).collect();
        assert_eq!(signatures, ["c2lnbmF0dXJl"], "{wire:?}");

        // After a restart nothing is remembered, and the request is still one that the provider takes.
        let restarted = stage.model_with(settings);
        let again = ask(&restarted, request(messages)).await;
        assert_eq!(again.error, None, "{wire:?}");
    }
}

#[tokio::test]
async fn turns_alternate() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let messages = vec![
            user("one", Vec::new()),
            user("two", Vec::new()),
            ModelMessage::Assistant { text: "three".into(), calls: Vec::new() },
            ModelMessage::Assistant { text: "four".into(), calls: Vec::new() },
            user("five", Vec::new()),
        ];
        ask(&stage.model(wire), request(messages)).await;
        let words = |text: &str| vec![RecordedPart::Text(text.to_owned())];
        assert_eq!(
            stage.server.last().turns,
            [
                RecordedTurn::User(words("one\n\ntwo")),
                RecordedTurn::Model { text: "three\n\nfour".into(), calls: Vec::new() },
                RecordedTurn::User(words("five")),
            ],
            "{wire:?}: many chat templates refuse anything else"
        );
    }
}

/// A model that loses its head asks for more and more; what becomes of it is the agent's to decide.
#[tokio::test]
async fn many_tool_calls_arrive_complete_and_in_order() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let calls = (0..500).map(|number| ScriptedCall::new("file_read", &format!(r#"{{"size": {number}}}"#)));
        stage.server.reply(ModelReply::calls(calls));
        let answer = ask(&stage.model(wire), request(vec![user("go", Vec::new())])).await;
        assert_eq!(answer.error, None, "{wire:?}");
        let sizes: Vec<u64> = answer.calls.iter().filter_map(|call| call.arguments["size"].as_u64()).collect();
        assert_eq!(sizes, (0..500).collect::<Vec<_>>(), "{wire:?}");
    }
}
