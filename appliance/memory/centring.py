"""Reference sentences whose mean is a language's centre.

A multilingual encoder puts a language-shaped offset into every vector; subtracting the language's mean makes an English
question find a Chinese memory. The means are computed from these sentences when the encoder loads, so nothing binary is
shipped and everybody can see where the centre comes from. They are plain sentences of a factory, in parallel, and none of
them is a memory: a centre taken from the memories themselves would flatter every measurement.

Changing a sentence moves the space; ``centring_digest`` is part of the fingerprint for that reason.
"""

from __future__ import annotations

import re

from appliance.foundation.canonical import digest

_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")

SENTENCES: dict[str, tuple[str, ...]] = {
    "en": (
        "The shift started at six in the morning.",
        "The conveyor belt was stopped for cleaning.",
        "A worker replaced the filter of the compressor.",
        "Oil level of the gearbox is below the mark.",
        "The valve does not close completely.",
        "Pressure in the boiler rose quickly and then fell.",
        "The emergency stop was pressed by mistake.",
        "Vibration of the fan is higher than last week.",
        "The sensor cable was damaged by a forklift.",
        "Please check the water supply of the cooling tower.",
        "The packaging machine jammed twice today.",
        "Temperature of the oven is within limits.",
        "The bearing was greased during maintenance.",
        "Power was lost for three minutes in hall two.",
        "The robot arm lost its reference position.",
        "A seal leaks and hydraulic oil drips on the floor.",
        "The spare part will arrive on Thursday.",
        "The operator acknowledged the alarm.",
        "Speed of the drive is set to eighty percent.",
        "The circuit breaker tripped because of overload.",
        "The level switch of the tank reports empty.",
        "The technician tightened the loose screws.",
        "Air pressure is too low at station five.",
        "The door of the cabinet was left open.",
        "The network switch was restarted.",
        "The belt tension was adjusted and the noise disappeared.",
        "The motor current is higher than the rated value.",
        "Dust blocked the intake of the ventilation.",
        "A work order was created for the night shift.",
        "The pump runs dry when the inlet is blocked.",
        "The welding station produced too many rejects.",
        "The chain was worn and had to be replaced.",
        "The controller shows a communication fault.",
        "The light barrier is dirty.",
        "The coolant was topped up with two litres.",
        "The crane may not be used before the inspection.",
        "The mixer stopped because the lid was open.",
        "The measured value jumps between two numbers.",
        "The cause was a broken wire in the terminal box.",
        "After the repair the machine ran without trouble.",
    ),
    "zh": (
        "班次从早上六点开始。",
        "传送带因清洁而停机。",
        "一名工人更换了空压机的滤芯。",
        "减速箱的油位低于刻度线。",
        "阀门不能完全关闭。",
        "锅炉压力迅速上升然后下降。",
        "有人误按了急停按钮。",
        "风机的振动比上周大。",
        "传感器电缆被叉车压坏了。",
        "请检查冷却塔的供水。",
        "包装机今天卡了两次。",
        "烘箱温度在范围之内。",
        "保养时给轴承加了润滑脂。",
        "二号车间停电三分钟。",
        "机械臂丢失了参考位置。",
        "密封漏油，液压油滴在地上。",
        "备件星期四到货。",
        "操作员确认了报警。",
        "驱动器的速度设为百分之八十。",
        "断路器因过载跳闸。",
        "储罐的液位开关显示为空。",
        "技术员拧紧了松动的螺丝。",
        "五号工位气压太低。",
        "电柜的门没有关上。",
        "网络交换机重新启动了。",
        "调整皮带张力后噪音消失了。",
        "电机电流高于额定值。",
        "灰尘堵住了通风口。",
        "为夜班创建了一张工单。",
        "进口堵塞时水泵会空转。",
        "焊接工位的废品太多。",
        "链条磨损，必须更换。",
        "控制器显示通信故障。",
        "光栅脏了。",
        "冷却液补充了两升。",
        "检查之前不得使用吊车。",
        "盖子打开，搅拌机停了。",
        "测量值在两个数之间跳动。",
        "原因是接线盒里断了一根线。",
        "修理之后机器运行正常。",
    ),
}


def language_of(text: str) -> str:
    """Return ``zh`` when the text holds Han characters, else ``en``: the languages the product speaks, told by script."""
    return "zh" if _HAN.search(text) else "en"


def centring_digest() -> str:
    """Return eight hex digits naming this set of sentences."""
    return digest(SENTENCES)[:8]
