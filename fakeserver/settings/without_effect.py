"""Parameters that a server has and that nothing here obeys.

Tools and hosting scripts set them, and a refusal would stop those. So they are taken, checked and shown, with
a server's type, default and bounds, and change nothing: there is no disk, cache, planner or balancer to tune.
"""

from __future__ import annotations

from typing import Final

from fakeserver.profile import WIRE_44, WIRE_50, WIRE_60, WIRE_70, WIRE_80
from fakeserver.settings.declaration import INT32_MAX, Parameter

# The query planner, the executors and JavaScript.
_QUERIES: Final = (
    Parameter("notablescan", "bool", default=False, on_mongos=False),
    Parameter("allowDiskUseByDefault", "bool", default=True, since=WIRE_60),
    Parameter("internalQueryMaxBlockingSortMemoryUsageBytes", "long", 104_857_600, minimum=0, since=WIRE_44),
    Parameter("internalQueryExecMaxBlockingSortBytes", "int", 33_554_432, minimum=0),
    Parameter("internalDocumentSourceGroupMaxMemoryBytes", "long", 104_857_600, minimum=1),
    Parameter(
        "internalDocumentSourceSetWindowFieldsMaxMemoryBytes", "long", 104_857_600, minimum=1, since=WIRE_50
    ),
    Parameter("internalDocumentSourceLookupCacheSizeBytes", "long", 104_857_600, minimum=0),
    Parameter("internalLookupStageIntermediateDocumentMaxSizeBytes", "long", 104_857_600, minimum=16_793_600),
    Parameter("internalQueryFacetBufferSizeBytes", "long", 104_857_600, minimum=1),
    Parameter("internalQueryFacetMaxOutputDocSizeBytes", "long", 104_857_600, minimum=1),
    Parameter("internalQueryMaxAddToSetBytes", "long", 104_857_600, minimum=1),
    Parameter("internalQueryMaxPushBytes", "long", 104_857_600, minimum=1),
    Parameter("internalQueryMaxJsEmitBytes", "long", 104_857_600, minimum=1),
    Parameter("internalQueryPlannerEnableIndexIntersection", "bool", default=True),
    Parameter("internalQueryPlannerEnableHashIntersection", "bool", default=False),
    Parameter("internalQueryForceIntersectionPlans", "bool", default=False),
    Parameter("internalQueryForceClassicEngine", "bool", default=False, since=WIRE_60),
    Parameter(
        "internalQueryFrameworkControl",
        "string",
        "trySbeRestricted",
        choices=("forceClassicEngine", "trySbeRestricted", "trySbeEngine"),
        since=WIRE_60,
    ),
    Parameter("internalQueryPlannerMaxIndexedSolutions", "int", 64, minimum=0),
    Parameter("internalQueryEnumerationMaxOrSolutions", "int", 10, minimum=0),
    Parameter("internalQueryEnumerationMaxIntersectPerAnd", "int", 3, minimum=0),
    Parameter("internalQueryPlanOrChildrenIndependently", "bool", default=True),
    Parameter("internalQueryPlanEvaluationWorks", "int", 10_000, minimum=1),
    Parameter("internalQueryPlanEvaluationMaxResults", "int", 101, minimum=0),
    Parameter("internalQueryPlanEvaluationCollFraction", "double", 0.3, minimum=0, maximum=1),
    Parameter("internalQueryDisablePlanCache", "bool", default=False, since=WIRE_60),
    Parameter("internalQueryCacheMaxEntriesPerCollection", "int", 5_000, minimum=0, since=WIRE_44),
    Parameter("internalQueryCacheEvictionRatio", "double", 10.0, minimum=0),
    Parameter("internalQueryCacheWorksGrowthCoefficient", "double", 2.0, minimum=1),
    Parameter("planCacheSize", "string", "5%", since=WIRE_60),
    Parameter("internalQueryExecYieldIterations", "int", 1_000, minimum=0),
    Parameter("internalQueryStatsRateLimit", "int", 0, minimum=-1, since=WIRE_70),
    Parameter("internalQueryStatsCacheSize", "string", "1%", since=WIRE_70),
    Parameter("internalQueryProhibitBlockingMergeOnMongoS", "bool", default=False),
    Parameter("internalPipelineLengthLimit", "int", 1_000, minimum=1, at_runtime=False, since=WIRE_44),
    Parameter("maxBSONDepth", "int", 200, minimum=32, maximum=250, at_runtime=False),
    Parameter("internalQueryJavaScriptFnTimeoutMillis", "int", 60_000, minimum=1),
    Parameter("internalQueryJavaScriptHeapSizeLimitMB", "int", 100, minimum=1, since=WIRE_44),
    Parameter("jsHeapLimitMB", "int", 1_100, minimum=0),
    Parameter("disableJavaScriptJIT", "bool", default=True),
)
# Index builds and deletions.
_INDEXES: Final = (
    Parameter("maxIndexBuildMemoryUsageMegabytes", "int", 200, minimum=50, on_mongos=False),
    Parameter("maxNumActiveUserIndexBuilds", "int", 3, minimum=0, on_mongos=False, since=WIRE_44),
    Parameter("indexBuildMinAvailableDiskSpaceMB", "long", 500, minimum=0, on_mongos=False, since=WIRE_70),
    Parameter(
        "indexMaxNumGeneratedKeysPerDocument",
        "long",
        100_000,
        minimum=1,
        at_runtime=False,
        on_mongos=False,
        since=WIRE_44,
    ),
    Parameter(
        "enableIndexBuildCommitQuorum", "bool", default=True, at_runtime=False, on_mongos=False, since=WIRE_44
    ),
    Parameter(
        "resumableIndexBuildMajorityOpTimeTimeoutMillis",
        "int",
        10_000,
        at_runtime=False,
        on_mongos=False,
        since=WIRE_44,
    ),
    Parameter("batchUserMultiDeletes", "bool", default=True, on_mongos=False, since=WIRE_60),
    Parameter("batchedDeletesTargetBatchDocs", "long", 10, minimum=0, on_mongos=False, since=WIRE_60),
    Parameter("batchedDeletesTargetBatchTimeMS", "long", 5, minimum=0, on_mongos=False, since=WIRE_60),
    Parameter(
        "batchedDeletesTargetStagedDocBytes", "long", 2_097_152, minimum=0, on_mongos=False, since=WIRE_60
    ),
    Parameter("ttlMonitorBatchDeletes", "bool", default=True, on_mongos=False, since=WIRE_60),
)
# Oplog application, elections, initial sync, rollback.
_REPLICATION: Final = (
    Parameter("enableElectionHandoff", "bool", default=True, on_mongos=False),
    Parameter("writePeriodicNoops", "bool", default=True, at_runtime=False, on_mongos=False),
    Parameter("periodicNoopIntervalSecs", "int", 10, minimum=1, at_runtime=False, on_mongos=False),
    Parameter("waitForSecondaryBeforeNoopWriteMS", "int", 10, minimum=0, on_mongos=False),
    Parameter("createRollbackDataFiles", "bool", default=True, on_mongos=False),
    Parameter("rollbackTimeLimitSecs", "int", 86_400, minimum=1, on_mongos=False),
    Parameter("replWriterThreadCount", "int", 16, minimum=1, maximum=256, at_runtime=False, on_mongos=False),
    Parameter(
        "replWriterMinThreadCount", "int", 0, minimum=0, maximum=256, at_runtime=False, on_mongos=False
    ),
    Parameter("replBatchLimitOperations", "int", 5_000, minimum=1, maximum=1_000_000, on_mongos=False),
    Parameter(
        "replBatchLimitBytes", "int", 104_857_600, minimum=16_777_216, maximum=104_857_600, on_mongos=False
    ),
    Parameter("maxSyncSourceLagSecs", "int", 30, minimum=1, at_runtime=False, on_mongos=False),
    Parameter("maxNumSyncSourceChangesPerHour", "int", 3, minimum=1, on_mongos=False, since=WIRE_50),
    Parameter("changeSyncSourceThresholdMillis", "int", 5, minimum=0, on_mongos=False, since=WIRE_44),
    Parameter(
        "enableOverrideClusterChainingSetting",
        "bool",
        default=False,
        at_runtime=False,
        on_mongos=False,
        since=WIRE_44,
    ),
    Parameter("oplogInitialFindMaxSeconds", "int", 60, minimum=1, on_mongos=False),
    Parameter("oplogBatchDelayMillis", "int", 0, minimum=0, at_runtime=False, on_mongos=False, since=WIRE_50),
    Parameter(
        "oplogFetcherUsesExhaust", "bool", default=True, at_runtime=False, on_mongos=False, since=WIRE_44
    ),
    Parameter(
        "oplogApplicationEnforcesSteadyStateConstraints",
        "bool",
        default=False,
        at_runtime=False,
        on_mongos=False,
        since=WIRE_44,
    ),
    Parameter("numInitialSyncAttempts", "int", 10, minimum=1, on_mongos=False),
    Parameter(
        "initialSyncTransientErrorRetryPeriodSeconds",
        "int",
        86_400,
        minimum=0,
        on_mongos=False,
        since=WIRE_44,
    ),
    Parameter(
        "initialSyncMethod",
        "string",
        "logical",
        choices=("logical", "fileCopyBased"),
        at_runtime=False,
        on_mongos=False,
        since=WIRE_60,
    ),
    Parameter(
        "initialSyncSourceReadPreference", "string", None, at_runtime=False, on_mongos=False, since=WIRE_44
    ),
    Parameter("mirrorReads", "document", {"samplingRate": 0.01}, on_mongos=False, since=WIRE_44),
    Parameter("recoverFromOplogAsStandalone", "bool", default=False, at_runtime=False, on_mongos=False),
    Parameter("takeUnstableCheckpointOnShutdown", "bool", default=False, at_runtime=False, on_mongos=False),
    Parameter(
        "disableSplitHorizonIPCheck", "bool", default=False, at_runtime=False, on_mongos=False, since=WIRE_50
    ),
    Parameter(
        "allowMultipleArbiters", "bool", default=False, at_runtime=False, on_mongos=False, since=WIRE_50
    ),
    Parameter(
        "storeFindAndModifyImagesInSideCollection", "bool", default=True, on_mongos=False, since=WIRE_50
    ),
)
# Files, checkpoints, caches and memory.
_STORAGE: Final = (
    Parameter("syncdelay", "double", 60.0, minimum=0, maximum=90_000, on_mongos=False),
    Parameter("journalCommitInterval", "int", 100, minimum=1, maximum=500, on_mongos=False),
    Parameter("wiredTigerEngineRuntimeConfig", "string", "", on_mongos=False),
    Parameter(
        "wiredTigerFileHandleCloseIdleTime",
        "int",
        600,
        minimum=0,
        maximum=100_000,
        at_runtime=False,
        on_mongos=False,
    ),
    Parameter("minSnapshotHistoryWindowInSeconds", "int", 300, minimum=0, on_mongos=False),
    Parameter("diagnosticDataCollectionEnabled", "bool", default=True),
    Parameter("diagnosticDataCollectionDirectorySizeMB", "int", 250, minimum=10),
    Parameter("diagnosticDataCollectionFileSizeMB", "int", 10, minimum=1),
    Parameter("diagnosticDataCollectionPeriodMillis", "int", 1_000, minimum=100),
    Parameter("diagnosticDataCollectionSamplesPerChunk", "int", 300, minimum=2),
    Parameter("diagnosticDataCollectionSamplesPerInterimUpdate", "int", 10, minimum=2),
    Parameter("diagnosticDataCollectionVerboseTCMalloc", "bool", default=False),
    Parameter("honorSystemUmask", "bool", default=False, at_runtime=False),
    Parameter("processUmask", "string", "", at_runtime=False, since=WIRE_44),
    Parameter("tcmallocReleaseRate", "double", 1.0, minimum=0, maximum=10),
    Parameter("tcmallocAggressiveMemoryDecommit", "int", 0, minimum=0),
    Parameter("tcmallocEnableBackgroundThread", "bool", default=False, since=WIRE_80),
    Parameter("heapProfilingEnabled", "bool", default=False, at_runtime=False),
    Parameter("heapProfilingSampleIntervalBytes", "long", 262_144, minimum=1, at_runtime=False),
    Parameter("timeseriesBucketMaxCount", "int", 1_000, minimum=1, at_runtime=False, since=WIRE_50),
    Parameter("timeseriesBucketMaxSize", "int", 128_000, minimum=1, at_runtime=False, since=WIRE_50),
    Parameter(
        "timeseriesIdleBucketExpiryMemoryUsageThreshold", "long", 104_857_600, minimum=1, since=WIRE_50
    ),
)
# Sessions, transactions and shutdown.
_SESSIONS: Final = (
    Parameter("maxSessions", "int", 1_000_000, minimum=1, at_runtime=False),
    Parameter("logicalSessionRefreshMillis", "int", 300_000, minimum=1, at_runtime=False),
    Parameter("disableLogicalSessionCacheRefresh", "bool", default=False, at_runtime=False),
    Parameter("TransactionRecordMinimumLifetimeMinutes", "int", 30, minimum=1, at_runtime=False),
    Parameter(
        "coordinateCommitReturnImmediatelyAfterPersistingDecision", "bool", default=False, on_mongos=False
    ),
    Parameter(
        "shutdownTimeoutMillisForSignaledShutdown", "int", 15_000, minimum=0, on_mongos=False, since=WIRE_50
    ),
    Parameter("mongosShutdownTimeoutMillisForSignaledShutdown", "int", 15_000, minimum=0, since=WIRE_50),
)
# Migrations, the balancer and the pools of a mongos.
_SHARDING: Final = (
    Parameter("orphanCleanupDelaySecs", "int", 900, minimum=0, at_runtime=False, on_mongos=False),
    Parameter("rangeDeleterBatchSize", "int", INT32_MAX, minimum=0, on_mongos=False),
    Parameter("rangeDeleterBatchDelayMS", "int", 20, minimum=0, on_mongos=False),
    Parameter("rangeDeleterHighPriority", "bool", default=False, on_mongos=False, since=WIRE_80),
    Parameter(
        "disableResumableRangeDeleter",
        "bool",
        default=False,
        at_runtime=False,
        on_mongos=False,
        since=WIRE_44,
    ),
    Parameter("receiveChunkWaitForRangeDeleterTimeoutMS", "int", 10_000, minimum=0, on_mongos=False),
    Parameter("migrationLockAcquisitionMaxWaitMS", "int", 500, minimum=0, on_mongos=False),
    Parameter("migrateCloneInsertionBatchDelayMS", "int", 0, minimum=0, on_mongos=False),
    Parameter("migrateCloneInsertionBatchSize", "int", 0, minimum=0, on_mongos=False),
    Parameter("chunkMigrationConcurrency", "int", 1, minimum=1, maximum=500, on_mongos=False, since=WIRE_60),
    Parameter("chunkDefragmentationThrottlingMS", "int", 0, minimum=0, on_mongos=False, since=WIRE_60),
    Parameter("autoMergerIntervalSecs", "int", 3_600, minimum=1, on_mongos=False, since=WIRE_70),
    Parameter("autoMergerThrottlingMS", "int", 15_000, minimum=0, on_mongos=False, since=WIRE_70),
    Parameter("balancerMigrationsThrottlingMs", "int", 1_000, minimum=1_000, on_mongos=False, since=WIRE_70),
    Parameter(
        "minNumChunksForSessionsCollection",
        "int",
        1_024,
        minimum=1,
        maximum=1_000_000,
        at_runtime=False,
        on_mongos=False,
        since=WIRE_44,
    ),
    Parameter("skipShardingConfigurationChecks", "bool", default=False, at_runtime=False, on_mongos=False),
    Parameter(
        "reshardingMinimumOperationDurationMillis", "long", 300_000, minimum=0, on_mongos=False, since=WIRE_50
    ),
    Parameter(
        "reshardingCriticalSectionTimeoutMillis", "long", 5_000, minimum=0, on_mongos=False, since=WIRE_50
    ),
    Parameter("loadRoutingTableOnStartup", "bool", default=True, at_runtime=False, since=WIRE_44),
    Parameter(
        "warmMinConnectionsInShardingTaskExecutorPoolOnStartup",
        "bool",
        default=True,
        at_runtime=False,
        since=WIRE_44,
    ),
    Parameter(
        "warmMinConnectionsInShardingTaskExecutorPoolOnStartupWaitMS",
        "int",
        2_000,
        minimum=1,
        at_runtime=False,
        since=WIRE_44,
    ),
    Parameter("taskExecutorPoolSize", "int", 1, minimum=1, maximum=64, at_runtime=False),
    Parameter("ShardingTaskExecutorPoolHostTimeoutMS", "int", 300_000, minimum=0),
    Parameter("ShardingTaskExecutorPoolMaxConnecting", "int", 2, minimum=1),
    Parameter("ShardingTaskExecutorPoolMaxSize", "int", 32_767, minimum=1),
    Parameter("ShardingTaskExecutorPoolMinSize", "int", 1, minimum=0),
    Parameter("ShardingTaskExecutorPoolRefreshRequirementMS", "int", 60_000, minimum=1),
    Parameter("ShardingTaskExecutorPoolRefreshTimeoutMS", "int", 20_000, minimum=1),
    Parameter(
        "ShardingTaskExecutorPoolReplicaSetMatching",
        "string",
        "automatic",
        choices=("automatic", "disabled", "matchPrimaryNode", "matchBusiestNode"),
        since=WIRE_50,
    ),
    Parameter("replMonitorMaxFailedChecks", "int", 30, minimum=1, at_runtime=False),
    Parameter("opportunisticSecondaryTargeting", "bool", default=False, since=WIRE_60),
    Parameter("readHedgingMode", "string", "on", choices=("on", "off"), since=WIRE_44),
    Parameter("maxTimeMSForHedgedReads", "int", 150, minimum=1, since=WIRE_44),
)
# Connections, TLS, authentication and search.
_NETWORK: Final = (
    Parameter("connPoolMaxConnsPerHost", "int", 200, minimum=0, at_runtime=False),
    Parameter("connPoolMaxInUseConnsPerHost", "int", INT32_MAX, minimum=0, at_runtime=False),
    Parameter("connPoolMaxShardedConnsPerHost", "int", 200, minimum=0, at_runtime=False),
    Parameter("connPoolMaxShardedInUseConnsPerHost", "int", INT32_MAX, minimum=0, at_runtime=False),
    Parameter("globalConnPoolIdleTimeoutMinutes", "int", INT32_MAX, minimum=0, at_runtime=False),
    Parameter("shardedConnPoolIdleTimeoutMinutes", "int", INT32_MAX, minimum=0, at_runtime=False),
    Parameter("tcpFastOpenServer", "bool", default=True, at_runtime=False),
    Parameter("tcpFastOpenClient", "bool", default=True, at_runtime=False),
    Parameter("tcpFastOpenQueueSize", "int", 1_024, minimum=0, at_runtime=False),
    Parameter("enableDetailedConnectionHealthMetricLogLines", "bool", default=True, since=WIRE_70),
    Parameter("slowConnectionThresholdMillis", "int", 100, minimum=0, since=WIRE_60),
    Parameter("opensslCipherConfig", "string", "", at_runtime=False),
    Parameter("opensslDiffieHellmanParameters", "string", "", at_runtime=False),
    Parameter("ocspEnabled", "bool", default=True, at_runtime=False, since=WIRE_44),
    Parameter("tlsOCSPStaplingTimeoutSecs", "int", None, minimum=1, at_runtime=False, since=WIRE_44),
    Parameter("tlsOCSPVerifyTimeoutSecs", "int", 5, minimum=1, at_runtime=False, since=WIRE_44),
    Parameter("tlsWithholdClientCertificate", "bool", default=False, at_runtime=False),
    Parameter("tlsX509ClusterAuthDNOverride", "string", "", at_runtime=False),
    Parameter("tlsX509ExpirationWarningThresholdDays", "int", 30, minimum=0, at_runtime=False, since=WIRE_44),
    Parameter("disableNonSSLConnectionLogging", "bool", default=False, at_runtime=False),
    Parameter("suppressNoTLSPeerCertificateWarning", "bool", default=False, at_runtime=False),
    Parameter("authFailedDelayMs", "int", 0, minimum=0, maximum=5_000),
    Parameter("userCacheInvalidationIntervalSecs", "int", 30, minimum=1, maximum=86_400),
    Parameter("auditAuthorizationSuccess", "bool", default=False),
    Parameter("saslHostName", "string", None, at_runtime=False),
    Parameter("saslServiceName", "string", "mongodb", at_runtime=False),
    Parameter("saslauthdPath", "string", None, at_runtime=False),
    Parameter("oidcIdentityProviders", "string", None, since=WIRE_70),
    Parameter("mongotHost", "string", "", at_runtime=False, since=WIRE_60),
    Parameter("searchIndexManagementHostAndPort", "string", "", at_runtime=False, since=WIRE_60),
    Parameter("skipAuthenticationToMongot", "bool", default=False, at_runtime=False, since=WIRE_60),
    Parameter(
        "skipAuthenticationToSearchIndexManagementServer",
        "bool",
        default=True,
        at_runtime=False,
        since=WIRE_60,
    ),
    Parameter("useGrpcForSearch", "bool", default=False, at_runtime=False, since=WIRE_80),
    Parameter("KeysRotationIntervalSec", "int", 7_776_000, minimum=1, at_runtime=False),
    Parameter("textSearchEnabled", "bool", default=True, at_runtime=False),
)
# What is logged and watched.
_DIAGNOSTICS: Final = (
    Parameter("automationServiceDescriptor", "string", "", longest=64),
    Parameter("maxLogSizeKB", "int", 10, minimum=0),
    Parameter("redactEncryptedFields", "bool", default=True, since=WIRE_60),
    Parameter("traceExceptions", "bool", default=False),
    Parameter("traceWriteConflictExceptions", "bool", default=False),
    Parameter("watchdogPeriodSeconds", "int", -1, minimum=-1, on_mongos=False),
)

TABLE: Final = (
    *_QUERIES,
    *_INDEXES,
    *_REPLICATION,
    *_STORAGE,
    *_SESSIONS,
    *_SHARDING,
    *_NETWORK,
    *_DIAGNOSTICS,
)
