"""Runs where TensorBoard is: prints, as JSON, what the multiplexer of its server finds below a folder."""

import json
import sys

from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

multiplexer = EventMultiplexer(size_guidance={"scalars": 0, "histograms": 0})
multiplexer.AddRunsFromDirectory(sys.argv[1])
multiplexer.Reload()
found = {}
for run, tags in multiplexer.Runs().items():
    found[run] = {
        "version": multiplexer.GetAccumulator(run).file_version,
        "scalars": {
            tag: [[event.step, event.value, event.wall_time] for event in multiplexer.Scalars(run, tag)]
            for tag in tags["scalars"]
        },
        "histograms": {
            tag: [
                [
                    event.step,
                    event.histogram_value.min,
                    event.histogram_value.max,
                    event.histogram_value.num,
                    list(event.histogram_value.bucket_limit),
                    list(event.histogram_value.bucket),
                ]
                for event in multiplexer.Histograms(run, tag)
            ]
            for tag in tags["histograms"]
        },
    }
    if tags["tensors"]:
        found[run]["texts"] = {
            tag: [
                [event.step, event.tensor_proto.string_val[0].decode(), event.wall_time]
                for event in multiplexer.Tensors(run, tag)
            ]
            for tag in multiplexer.GetAccumulator(run).PluginTagToContent("text")
        }
print(json.dumps(found))
