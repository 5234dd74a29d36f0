"""Ids and times for the examples of the OpenAPI document. All examples use the same objects."""

TENANT_ID = "ten_01jqst5h00eh1tqamgg6daxx8x"
API_KEY_ID = "key_01jqst7bk0fhra2avt0s3fj8ks"
KNOWLEDGE_BASE_ID = "kb_01jqst9660ekz81gsyjtns1b48"
DOCUMENT_ID = "doc_01jqstb0s0eees8jw23c9yqtgm"
DELETION_ID = "del_01jqstenz0eqhrj0m9waanvyqc"
EVENT_ID = "evt_01jqstggj0e17r0avdqztd2p3x"
WEBHOOK_ID = "whk_01jqstjb50fmjrycbmsrq9c4f2"
DELIVERY_ID = "dlv_01jqstvg40f8rvc0faypb8dsxt"
CHUNK_ID = "chk_33sn7p6cmdgxs933qayz0gntc2"
NODE_ID = "nod_208f9nwzemgqkt7rbf6eyj55cq"
REQUEST_ID = "req_01jqstqty0efvvvx9qrhkj8e9c"
BINDING_ID = "bnd_01jqstsnh0eajb24mgbqrzk79g"
SQL_VIEW_ID = "sqlv_01jqstxaq0e7gs37c17pp9tqh0"
FILE_ID = "file_01jqstz5a0feebb3spy2hhptpk"
FILE_BATCH_ID = "vsfb_01jqsv0zx0fxvrf1a6cbf9azaw"
AGENT_ID = "support-bot"
USER_ID = "user-42"
CHAT_ID = "chat-7"
KNOWLEDGE_BASE_NAME = "handbook"
CREATED_AT = "2026-03-02T09:30:00.000Z"
UPDATED_AT = "2026-03-02T09:31:12.000Z"
UNIX_CREATED_AT = 1_772_443_800
CURSOR = "WyIyMDI2LTAzLTAyVDA5OjMwOjAwKzAwOjAwIiwgIjAxOTVmM2EyLWM0MDAtNzQwMC04MDAwLTAwMDAwMDAwMDAwMCJd"
SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
"""Ids are TypeIDs: a prefix, and a UUIDv7 or UUIDv8 in base32."""
SOURCE = {
    "type": "external",
    "hostname": "https://search.example.com",
    "path": "/v1/agent-search",
    "api_key": "${PARTNER}",
}
