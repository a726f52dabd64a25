"""Selections over HTTP: a live page for people, JSON and OpenFeature's protocol for programs.

One subscription reads the topic, whoever asks and however many look (`follower`), into memory (`store`); what answers
reads from there alone: the page and its events (`page`, `events`), JSON (`selections`), OFREP (`flags`). `guard` stands
before all of them.
"""
