"""What one writes without Floorhand: poll coils, publish what changed. Nothing is kept, acknowledged or said.

The yardstick of alarm latency and CPU: `python bench/alarm_script.py PLC_PORT MQTT_PORT USER PASSWORD COILS`.
"""

import asyncio
import json
import sys

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from pymodbus.client import AsyncModbusTcpClient


async def main(plc_port: int, mqtt_port: int, user: str, password: str, coils: int) -> None:
    """Poll every 50 ms, for ever."""
    broker = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    broker.username_pw_set(user, password)
    broker.connect("127.0.0.1", mqtt_port)
    broker.loop_start()
    plc = AsyncModbusTcpClient("127.0.0.1", port=plc_port)
    await plc.connect()
    last: list[bool] = []
    print(json.dumps({"event": "ready"}), flush=True)
    loop = asyncio.get_running_loop()
    due_s = loop.time()
    while True:
        bits = list((await plc.read_coils(0, count=coils, device_id=1)).bits[:coils])
        for coil, (was, now) in enumerate(zip(last, bits, strict=False)):
            if was != now:
                broker.publish("plant/bench/script", json.dumps({"coil": coil, "on": now}), qos=1)
        last = bits
        due_s += 0.05
        await asyncio.sleep(max(0.0, due_s - loop.time()))


asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])))
