"""Path parameters of routes, with their descriptions and examples for the OpenAPI document."""

from typing import Annotated

from fastapi import Path

from app.api.http import example_values

KnowledgeBasePath = Annotated[
    str, Path(description="Id or name of the knowledge base.", examples=[example_values.KNOWLEDGE_BASE_NAME])
]
DocumentPath = Annotated[str, Path(description="Id of the document.", examples=[example_values.DOCUMENT_ID])]
ChunkPath = Annotated[str, Path(description="Id of the chunk.", examples=[example_values.CHUNK_ID])]
NodePath = Annotated[str, Path(description="Id of the node in the document tree.", examples=[example_values.NODE_ID])]
EntityPath = Annotated[str, Path(description="Id of the entity.", examples=[example_values.ENTITY_ID])]
DeletionPath = Annotated[
    str,
    Path(
        description="Id of the deletion, from the header `Carrel-Deletion-Id`.", examples=[example_values.DELETION_ID]
    ),
]
JobPath = Annotated[str, Path(description="Id of the job.", examples=[example_values.JOB_ID])]
TenantPath = Annotated[str, Path(description="Id of the tenant.", examples=[example_values.TENANT_ID])]
ApiKeyPath = Annotated[
    str, Path(description="Id of the API key, not its secret.", examples=[example_values.API_KEY_ID])
]
WebhookPath = Annotated[str, Path(description="Id of the webhook.", examples=[example_values.WEBHOOK_ID])]
DeliveryPath = Annotated[
    str, Path(description="Id of the delivery, as in the header `webhook-id`.", examples=[example_values.DELIVERY_ID])
]
GoldenSetPath = Annotated[str, Path(description="Id of the golden set.", examples=[example_values.GOLDEN_SET_ID])]
GoldenItemPath = Annotated[str, Path(description="Id of the item.", examples=[example_values.GOLDEN_ITEM_ID])]
EvaluationPath = Annotated[str, Path(description="Id of the evaluation.", examples=[example_values.EVALUATION_ID])]
FilePath = Annotated[str, Path(description="Id of the file.", examples=[example_values.FILE_ID])]
FileBatchPath = Annotated[str, Path(description="Id of the file batch.", examples=[example_values.FILE_BATCH_ID])]
VectorStorePath = Annotated[
    str,
    Path(
        description="Id of the vector store, which is that of the knowledge base; the name of the knowledge base is "
        "accepted too.",
        examples=[example_values.KNOWLEDGE_BASE_ID],
    ),
]
VectorStoreFilePath = Annotated[
    str,
    Path(
        description="Id of the file in the vector store: that of the uploaded file, or that of the document.",
        examples=[example_values.FILE_ID],
    ),
]
