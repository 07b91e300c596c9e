"""The names of files, environment variables and configuration keys of smdebug."""

from smdebug import not_offered
from trackside.contracts import run_layout
from trackside.records import state_file

# In a training container.
DEFAULT_SAGEMAKER_OUTDIR = "/opt/ml/output/tensors"
DEFAULT_CONFIG_FILE_PATH = "/opt/ml/input/config/debughookconfig.json"
DEFAULT_CHECKPOINT_CONFIG_FILE = "/opt/ml/input/config/checkpointconfig.json"
DEFAULT_RESOURCE_CONFIG_FILE = "/opt/ml/input/config/resourceconfig.json"
DEFAULT_SAGEMAKER_TENSORBOARD_PATH = "/opt/ml/input/config/tensorboardoutputconfig.json"

# In a run.
CLAIM_FILENAME = run_layout.CLAIM_KEY
DEFAULT_WORKER_NAME = "worker_0"
DEFAULT_COLLECTIONS_FILE_NAME = "worker_0_collections.json"
DEFAULT_SAVED_COLLECTIONS = ["losses"]

# Environment variables, and what holds without them.
CONFIG_FILE_PATH_ENV_STR = "SMDEBUG_CONFIG_FILE_PATH"
TENSORBOARD_CONFIG_FILE_PATH_ENV_STR = "TENSORBOARD_CONFIG_FILE_PATH"
CHECKPOINT_CONFIG_FILE_PATH_ENV_VAR = "CHECKPOINT_CONFIG_FILE_PATH"
DEFAULT_SAGEMAKER_METRICS_PATH = "SAGEMAKER_METRICS_DIRECTORY"
INCOMPLETE_STEP_WAIT_WINDOW_KEY = "SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW"
INCOMPLETE_STEP_WAIT_WINDOW_DEFAULT = 1000
MISSING_EVENT_FILE_RETRY_LIMIT_KEY = "SMDEBUG_MISSING_EVENT_FILE_RETRY_LIMIT"
MISSING_EVENT_FILE_RETRY_LIMIT = 100
TRAINING_END_DELAY_REFRESH_KEY = "SMDEBUG_TRAINING_END_DELAY_REFRESH"
TRAINING_END_DELAY_REFRESH_DEFAULT = 1
CALLABLE_CACHE_ENV_VAR = "SMDEBUG_KERAS_CALLABLE_CACHE_TYPE"
DEFAULT_CALLABLE_CACHE = "CACHE_PER_MODE"
PAPERMILL_EXECUTION_ENV_VAR = "PAPERMILL_EXECUTION"
LOG_DUPLICATION_THRESHOLD = 3

# In the hook's configuration.
CONFIG_OUTDIR_KEY = "LocalPath"
CONFIG_HOOK_PARAMS_KEY = "HookParameters"
CONFIG_COLLECTION_CONFIG_KEY = "CollectionConfigurations"
CONFIG_COLLECTION_NAME_KEY = "CollectionName"
CONFIG_COLLECTION_PARAMS_KEY = "CollectionParameters"
CONFIG_INCLUDE_REGEX_KEY = "include_regex"
CONFIG_INCLUDE_WORKERS_KEY = "include_workers"
CONFIG_SAVE_ALL_KEY = "save_all"
CONFIG_SAVE_CONFIGS_KEY = "save_configs"
CONFIG_RDN_CFG_KEY = "reduction_config"
CONFIG_REDUCTION_CONFIGS_KEY = "reduction_configs"
CONFIG_DRYRUN_KEY = "dry_run"
EXPORT_TENSORBOARD_KEY = "export_tensorboard"
TENSORBOARD_DIR_KEY = "tensorboard_dir"

# In the file of states, and in the configuration with its location.
CHECKPOINT_DIR_KEY = "LocalPath"
METADATA_FILENAME = state_file.STATES_KEY
METADATA_FILENAME_S3_UPLOADED = f"{state_file.STATES_KEY}.sagemaker-uploaded"
TRAINING_RUN = state_file.TRAINING_RUN
LATEST_GLOBAL_STEP_SAVED = state_file.LAST_SAVED_STEP
LATEST_GLOBAL_STEP_SEEN = state_file.LAST_SEEN_STEP
LATEST_MODE_STEP = state_file.MODE_STEPS

__getattr__ = not_offered.attribute_of(__name__)
