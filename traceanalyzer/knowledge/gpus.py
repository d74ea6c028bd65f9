"""Peak figures of GPUs and bandwidth of the links between them, from their vendors' data sheets.

Rates are dense (without structured sparsity), in TFLOP/s, for products that accumulate in fp32, at boost clock;
bandwidth is that of device memory, in GB/s (10^9 bytes per second). Figures missing in a data sheet are unknown, and so
are those in which cards of one name differ: rates of a laptop depend on the power that its maker grants. They are for
one device as the runtime shows it: one of the two dies of an MI250X, one of the two GPUs of a GB200.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

import msgspec

from traceanalyzer.trace.model import Device

_SOURCES = {
    "kepler": "NVIDIA Tesla K80 board specification (BD-07317-001), per GPU",
    "pascal": "NVIDIA Tesla P4, P40 and P100 data sheets (2016)",
    "volta": "NVIDIA V100 data sheet (WP-1165301, 2020)",
    "volta-w": "NVIDIA TITAN V and Quadro GV100 data sheets (2018)",
    "t4": "NVIDIA T4 data sheet (2019)",
    "tu": "NVIDIA Turing GPU architecture white paper (WP-09183-001), appendix A",
    "ga102": "NVIDIA Ampere GA102 GPU architecture white paper, appendix A",
    "quadro": "NVIDIA Quadro RTX 5000 and 8000 data sheets (2019)",
    "gtx10": "NVIDIA specifications of GeForce 10 cards; rates from cores and boost clock",
    "gtx16": "NVIDIA specifications of GeForce GTX 16 cards; rates from cores and boost clock",
    "mx": "NVIDIA specifications of GeForce MX GPUs; bandwidth differs between laptops",
    "rtx20": "NVIDIA specifications of GeForce RTX 20 cards, and Turing white paper; rates from cores and boost clock",
    "rtx30": "NVIDIA specifications of GeForce RTX 30 cards, and GA102 white paper; rates from cores and boost clock",
    "rtx40": "NVIDIA specifications of GeForce RTX 40 cards, and Ada white paper; rates from cores and boost clock",
    "rtx50s": "NVIDIA specifications of GeForce RTX 50 cards, and its white paper; rates from cores and boost clock",
    "laptop": "NVIDIA specifications of GeForce RTX laptop GPUs; rates depend on the laptop's power",
    "rtxa": "NVIDIA data sheets of RTX A2000 to A5500 (2021 to 2022)",
    "rtxada": "NVIDIA data sheets of RTX Ada Generation cards (2022 to 2024)",
    "a2": "NVIDIA A2 data sheet (2021)",
    "a10g": "NVIDIA A10G data sheet (2022)",
    "a10": "NVIDIA A10 data sheet (2021)",
    "a30": "NVIDIA A30 data sheet (2021)",
    "a40": "NVIDIA A40 data sheet (2021)",
    "a100": "NVIDIA A100 data sheet (2021)",
    "ada": "NVIDIA Ada GPU architecture white paper, appendix A",
    "l4": "NVIDIA L4 data sheet (2023)",
    "l40": "NVIDIA L40 data sheet (2022)",
    "l40s": "NVIDIA L40S data sheet (2023)",
    "h100": "NVIDIA H100 data sheet (2023) and H100 Tensor Core GPU architecture white paper",
    "h200": "NVIDIA H200 data sheet (2024)",
    "b200": "NVIDIA Blackwell data sheet (2025), HGX B200 and GB200 NVL72, per GPU",
    "rtx50": "NVIDIA RTX Blackwell GPU architecture white paper, appendix A",
    "jetson": "NVIDIA Jetson AGX Orin and AGX Xavier data sheets",
    "gb10": "NVIDIA DGX Spark data sheet (2025)",
    "cdna2": "AMD Instinct MI200 series data sheets (2022)",
    "cdna3": "AMD Instinct MI300A, MI300X and MI325X data sheets (2023 to 2024)",
    "cdna4": "AMD Instinct MI350X and MI355X data sheets (2025)",
    "rx6000": "AMD specifications of Radeon RX 6000 cards",
    "rx7000": "AMD specifications of Radeon RX 7000 cards",
    "rx9000": "AMD specifications of Radeon RX 9000 cards",
}

_WITHOUT_BF16 = ("volta", "volta-w", "t4", "tu", "quadro", "rtx20")

# Columns are separated by two blanks. The first line whose pattern matches the device name, and whose range contains
# the memory in GiB, is used. fp64m, fp32m, and fp16 (and bf16, at the same rate) to int8 are rates of matrix units.
# PCIe is the generation and the lanes of the slot.
_DATA_CENTER = r"""
model            pattern             GiB    SMs  GB/s   fp64  fp64m  fp32  tf32   fp16    fp8     int8    PCIe  from
K80              \bK80$              -      13   240    -     -      -     -      -       -       -       3x16  kepler
P4               \bP4$               -      20   192    -     -      5.5   -      -       -       22      3x16  pascal
P40              \bP40$              -      30   346    -     -      12    -      -       -       47      3x16  pascal
P100 PCIe 12GB   \bP100.PCIE         10-13  56   549    4.7   -      9.3   -      -       -       -       3x16  pascal
P100 PCIe        \bP100.PCIE         14-17  56   732    4.7   -      9.3   -      -       -       -       3x16  pascal
P100 SXM2        \bP100.SXM2         -      56   732    5.3   -      10.6  -      -       -       -       3x16  pascal
V100S            V100S               -      80   1134   8.2   -      16.4  -      130     -       -       3x16  volta
V100 PCIe        V100.PCIE           -      80   900    7     -      14    -      112     -       -       3x16  volta
V100 SXM2        V100.(SXM|DGXS)     -      80   900    7.8   -      15.7  -      125     -       -       3x16  volta
TITAN V          TITAN V$            -      80   652.8  -     -      14.9  -      110     -       -       3x16  volta-w
Quadro GV100     Quadro GV100$       -      80   870    7.4   -      14.8  -      118.5   -       -       3x16  volta-w
T4               \bT4$               -      40   320    -     -      8.1   -      65      -       130     3x16  t4
A2               \bA2$               -      10   200    -     -      4.5   9      18      -       36      4x8   a2
A10              \bA10$              -      72   600    -     -      31.2  62.5   125     -       250     4x16  a10
A10G             \bA10G$             -      80   600    -     -      35    35     70      -       140     4x16  a10g
A30              \bA30$              -      56   933    5.2   10.3   10.3  82     165     -       330     4x16  a30
A40              \bA40$              -      84   696    -     -      37.4  74.8   149.7   -       299.3   4x16  a40
A100 80GB PCIe   \bA100.*PCIe        70-90  108  1935   9.7   19.5   19.5  156    312     -       624     4x16  a100
A100 80GB SXM    \bA100\b            70-90  108  2039   9.7   19.5   19.5  156    312     -       624     4x16  a100
A100 40GB PCIe   \bA100.*PCIe        30-45  108  1555   9.7   19.5   19.5  156    312     -       624     4x16  a100
A100 40GB        \bA100\b            30-45  108  1555   9.7   19.5   19.5  156    312     -       624     4x16  a100
L4               \bL4$               -      58   300    -     -      30.3  60     121     242.5   242.5   4x16  l4
L40              \bL40$              -      142  864    -     -      90.5  90.5   181.05  362     362     4x16  l40
L40S             \bL40S$             -      142  864    -     -      91.6  183    362.05  733     733     4x16  l40s
H100 NVL         \bH100 NVL$         -      132  3900   30    60     60    417.5  835     1670    1670    5x16  h100
H100 PCIe        \bH100 PCIe$        -      114  2039   25.6  51.2   51.2  378    756     1513    1513    5x16  h100
H100 SXM         \bH100.*(HBM3|SXM)  70-90  132  3350   33.5  66.9   66.9  494.7  989.4   1978.9  1978.9  5x16  h100
H200 NVL         \bH200 NVL$         -      132  4800   30    60     60    417.5  835.5   1670.5  1670.5  5x16  h200
H200 SXM         \bH200$             -      132  4800   33.5  66.9   66.9  494.7  989.4   1978.9  1978.9  5x16  h200
GB200            \bGB200$            -      148  8000   40    40     80    1250   2500    5000    5000    -     b200
B200             \bB200$             -      148  7700   37    37     75    1100   2250    4500    4500    -     b200
AGX Orin 64GB    ^Orin$              57-63  16   204.8  -     -      5.3   -      -       -       -       -     jetson
AGX Orin 32GB    ^Orin$              28-31  14   204.8  -     -      -     -      -       -       -       -     jetson
AGX Xavier 32GB  ^Xavier$            28-32  8    136.5  -     -      1.4   -      -       -       -       -     jetson
GB10             \bGB10$             -      48   273    -     -      -     -      -       -       -       -     gb10
"""

_CARDS = r"""
model               pattern                       GiB    SMs  GB/s   fp32   tf32   fp16   fp8    int8   PCIe  from
MX150               MX150$                        -      3    -      -      -      -      -      -      3x4   mx
MX250               MX250$                        -      3    -      -      -      -      -      -      3x4   mx
MX330               MX330$                        -      3    -      -      -      -      -      -      3x4   mx
GTX 1050 Ti         GTX 1050 Ti$                  -      6    112    2.138  -      -      -      -      3x16  gtx10
GTX 1060 3GB        GTX 1060 3GB$                 -      9    192    3.935  -      -      -      -      3x16  gtx10
GTX 1060 6GB        GTX 1060( 6GB)?$              -      10   192    4.372  -      -      -      -      3x16  gtx10
GTX 1070            GTX 1070$                     -      15   256    6.463  -      -      -      -      3x16  gtx10
GTX 1070 Ti         GTX 1070 Ti$                  -      19   256    8.186  -      -      -      -      3x16  gtx10
GTX 1080            GTX 1080$                     -      20   320    8.873  -      -      -      -      3x16  gtx10
GTX 1080 Ti         GTX 1080 Ti$                  -      28   484    11.34  -      -      -      -      3x16  gtx10
TITAN X Pascal      TITAN X \(Pascal\)$           -      28   480    10.97  -      -      -      -      3x16  gtx10
TITAN Xp            TITAN Xp$                     -      30   547.7  12.15  -      -      -      -      3x16  gtx10
GTX 1650            GTX 1650$                     -      14   -      -      -      -      -      -      3x16  gtx16
GTX 1650 SUPER      GTX 1650 SUPER$               -      20   192    4.416  -      -      -      -      3x16  gtx16
GTX 1660            GTX 1660$                     -      22   192    5.027  -      -      -      -      3x16  gtx16
GTX 1660 SUPER      GTX 1660 SUPER$               -      22   336    5.027  -      -      -      -      3x16  gtx16
GTX 1660 Ti         GTX 1660 Ti$                  -      24   288    5.437  -      -      -      -      3x16  gtx16
RTX 2060            RTX 2060$                     5-7    30   336    6.451  -      25.8   -      103.2  3x16  rtx20
RTX 2060 12GB       RTX 2060$                     11-13  34   336    7.181  -      28.72  -      114.9  3x16  rtx20
RTX 2060 SUPER      RTX 2060 SUPER$               -      34   448    7.181  -      28.72  -      114.9  3x16  rtx20
RTX 2070            RTX 2070$                     -      36   448    7.465  -      29.86  -      119.4  3x16  rtx20
RTX 2070 SUPER      RTX 2070 SUPER$               -      40   448    9.062  -      36.25  -      145    3x16  rtx20
RTX 2080            RTX 2080$                     -      46   448    10.07  -      40.27  -      161.1  3x16  rtx20
RTX 2080 SUPER      RTX 2080 SUPER$               -      48   496    11.15  -      44.61  -      178.4  3x16  rtx20
RTX 2080 Ti         RTX 2080 Ti$                  -      68   616    13.4   -      53.8   -      215.2  3x16  tu
TITAN RTX           TITAN RTX$                    -      72   672    16.3   -      130.5  -      261    3x16  tu
Quadro RTX 5000     Quadro RTX 5000$              -      48   448    11.2   -      89.2   -      178.4  3x16  quadro
Quadro RTX 6000     Quadro RTX 6000$              -      72   672    16.3   -      130.5  -      261    3x16  tu
Quadro RTX 8000     Quadro RTX 8000$              -      72   672    16.3   -      130.5  -      261    3x16  quadro
RTX 3050 6GB        RTX 3050( 6GB)?$              5-6    18   168    6.774  6.774  13.55  -      54.19  4x8   rtx30
RTX 3050            RTX 3050$                     7-8    20   224    9.098  9.098  18.2   -      72.79  4x8   rtx30
RTX 3060 8GB        RTX 3060$                     7-8    28   240    12.74  12.74  25.48  -      101.9  4x16  rtx30
RTX 3060            RTX 3060$                     11-12  28   360    12.74  12.74  25.48  -      101.9  4x16  rtx30
RTX 3060 Ti         RTX 3060 Ti$                  -      38   -      16.2   16.2   32.39  -      129.6  4x16  rtx30
RTX 3070            RTX 3070$                     -      46   448    20.3   20.3   40.6   -      162.6  4x16  ga102
RTX 3070 Ti         RTX 3070 Ti$                  -      48   608    21.75  21.75  43.5   -      174    4x16  rtx30
RTX 3080            RTX 3080$                     8-11   68   760    29.8   29.8   59.5   -      238    4x16  ga102
RTX 3080 12GB       RTX 3080$                     11-12  70   912    30.64  30.64  61.29  -      245.1  4x16  rtx30
RTX 3080 Ti         RTX 3080 Ti$                  -      80   912    34.1   34.1   68.2   -      272.8  4x16  rtx30
RTX 3090            RTX 3090$                     -      82   936    35.6   35.6   71     -      284    4x16  ga102
RTX 3090 Ti         RTX 3090 Ti$                  -      84   1008   40     40     80     -      320    4x16  ada
RTX 4060            RTX 4060$                     -      24   272    15.11  15.11  30.23  60.46  120.9  4x8   rtx40
RTX 4060 Ti         RTX 4060 Ti$                  -      34   288    22.06  22.06  44.13  88.26  176.5  4x8   rtx40
RTX 4070            RTX 4070$                     -      46   504    29.15  29.15  58.29  116.6  233.2  4x16  rtx40
RTX 4070 SUPER      RTX 4070 SUPER$               -      56   504    35.48  35.48  70.96  141.9  283.9  4x16  rtx40
RTX 4070 Ti         RTX 4070 Ti$                  -      60   504    40.09  40.09  80.18  160.4  320.7  4x16  rtx40
RTX 4070 Ti SUPER   RTX 4070 Ti SUPER$            -      66   672    44.1   44.1   88.2   176.4  352.8  4x16  rtx40
RTX 4080            RTX 4080$                     14-17  76   716.8  48.7   48.7   97.5   194.9  389.9  4x16  ada
RTX 4080 SUPER      RTX 4080 SUPER$               -      80   736    52.22  52.22  104.4  208.9  417.8  4x16  rtx40
RTX 4090            RTX 4090$                     -      128  1008   82.6   82.6   165.2  330.3  660.6  4x16  ada
RTX 4090 D          RTX 4090 D$                   -      114  1008   73.54  73.54  147.1  294.2  588.3  4x16  rtx40
RTX 5050            RTX 5050$                     -      20   320    13.17  13.17  26.34  52.67  105.3  5x8   rtx50s
RTX 5060            RTX 5060$                     -      30   448    19.18  19.18  38.35  76.71  153.4  5x8   rtx50s
RTX 5060 Ti         RTX 5060 Ti$                  -      36   448    23.7   23.7   47.41  94.81  189.6  5x8   rtx50s
RTX 5070            RTX 5070$                     -      48   672    30.87  30.87  61.73  123.5  246.9  5x16  rtx50s
RTX 5070 Ti         RTX 5070 Ti$                  -      70   896    43.94  43.94  87.88  175.8  351.5  5x16  rtx50s
RTX 5080            RTX 5080$                     -      84   960    56.3   56.3   112.6  225.1  450.2  5x16  rtx50
RTX 5090            RTX 5090$                     -      170  1792   104.8  104.8  209.5  419    838    5x16  rtx50
RTX 3050 Laptop     RTX 3050 Laptop GPU$          3-4    16   192    -      -      -      -      -      4x8   laptop
RTX 3050 Ti Laptop  RTX 3050 Ti Laptop GPU$       -      20   192    -      -      -      -      -      4x8   laptop
RTX 3060 Laptop     RTX 3060 Laptop GPU$          -      30   336    -      -      -      -      -      4x16  laptop
RTX 3070 Laptop     RTX 3070 Laptop GPU$          -      40   -      -      -      -      -      -      4x16  laptop
RTX 3070 Ti Laptop  RTX 3070 Ti Laptop GPU$       -      46   448    -      -      -      -      -      4x16  laptop
RTX 3080 Laptop     RTX 3080 Laptop GPU$          -      48   -      -      -      -      -      -      4x16  laptop
RTX 3080 Ti Laptop  RTX 3080 Ti Laptop GPU$       -      58   512    -      -      -      -      -      4x16  laptop
RTX 4050 Laptop     RTX 4050 Laptop GPU$          -      20   192    -      -      -      -      -      4x8   laptop
RTX 4060 Laptop     RTX 4060 Laptop GPU$          -      24   256    -      -      -      -      -      4x8   laptop
RTX 4070 Laptop     RTX 4070 Laptop GPU$          -      36   256    -      -      -      -      -      4x8   laptop
RTX 4080 Laptop     RTX 4080 Laptop GPU$          -      58   432    -      -      -      -      -      4x16  laptop
RTX 4090 Laptop     RTX 4090 Laptop GPU$          -      76   576    -      -      -      -      -      4x16  laptop
RTX 5060 Laptop     RTX 5060 Laptop GPU$          -      26   384    -      -      -      -      -      5x8   laptop
RTX 5070 Laptop     RTX 5070 Laptop GPU$          -      36   384    -      -      -      -      -      5x8   laptop
RTX 5070 Ti Laptop  RTX 5070 Ti Laptop GPU$       -      46   672    -      -      -      -      -      5x16  laptop
RTX 5080 Laptop     RTX 5080 Laptop GPU$          -      60   896    -      -      -      -      -      5x16  laptop
RTX 5090 Laptop     RTX 5090 Laptop GPU$          -      82   896    -      -      -      -      -      5x16  laptop
RTX A2000           RTX A2000( 12GB)?$            -      26   288    8      15.97  31.95  -      63.9   4x16  rtxa
RTX A4000           RTX A4000$                    -      48   448    19.2   38.35  76.7   -      153.4  4x16  rtxa
RTX A4500           RTX A4500$                    -      56   640    23.7   47.3   94.6   -      189.2  4x16  rtxa
RTX A5000           RTX A5000$                    -      64   768    27.8   55.55  111.1  -      222.2  4x16  rtxa
RTX A5500           RTX A5500$                    -      80   768    34.1   68.2   136.4  -      272.8  4x16  rtxa
RTX A6000           RTX A6000$                    -      84   768    38.7   77.4   154.8  -      309.7  4x16  ga102
RTX 2000 Ada        RTX 2000 Ada Generation$      -      22   224    12     23.99  47.98  95.95  95.95  4x8   rtxada
RTX 4000 SFF Ada    RTX 4000 SFF Ada Generation$  -      48   280    19.2   38.35  76.7   153.4  153.4  4x16  rtxada
RTX 4000 Ada        RTX 4000 Ada Generation$      -      48   360    26.7   53.45  106.9  213.8  213.8  4x16  rtxada
RTX 4500 Ada        RTX 4500 Ada Generation$      -      60   432    39.6   79.25  158.5  317    317    4x16  rtxada
RTX 5000 Ada        RTX 5000 Ada Generation$      -      100  576    65.3   130.6  261.1  522.2  522.2  4x16  rtxada
RTX 6000 Ada        RTX 6000 Ada Generation$      -      142  960    91.1   182.1  364.2  728.5  728.5  4x16  rtxada
"""

_AMD = r"""
model        pattern       GiB  SMs  GB/s    fp64   fp64m  fp32   fp32m  tf32   fp16    fp8     int8    PCIe  from
MI210        \bMI210       -    104  1638.4  22.6   45.3   22.6   45.3   -      181     -       181     4x16  cdna2
MI250X       \bMI250X      -    110  1638.4  23.95  47.85  23.95  47.85  -      191.5   -       191.5   4x16  cdna2
MI300X       \bMI300X      -    304  5300    81.7   163.4  163.4  163.4  653.7  1307.4  2614.9  2614.9  5x16  cdna3
MI300A       \bMI300A      -    228  5300    61.3   122.6  122.6  122.6  490.3  980.6   1961.2  1961.2  -     cdna3
MI325X       \bMI325X      -    304  6000    81.7   163.4  163.4  163.4  653.7  1307.4  2614.9  2614.9  5x16  cdna3
MI350X       \bMI350X      -    256  8000    72.1   72.1   144.2  144.2  -      2306.9  4613.7  4613.7  5x16  cdna4
MI355X       \bMI355X      -    256  8000    78.6   78.6   157.3  157.3  -      2516.6  5033.2  5033.2  5x16  cdna4
RX 6600      RX 6600$      -    -    224     -      -      8.93   -      -      -       -       -       4x8   rx6000
RX 6600 XT   RX 6600 XT$   -    -    256     -      -      10.6   -      -      -       -       -       4x8   rx6000
RX 6700 XT   RX 6700 XT$   -    -    384     -      -      13.21  -      -      -       -       -       4x16  rx6000
RX 6800      RX 6800$      -    -    512     -      -      16.17  -      -      -       -       -       4x16  rx6000
RX 6800 XT   RX 6800 XT$   -    -    512     -      -      20.74  -      -      -       -       -       4x16  rx6000
RX 6900 XT   RX 6900 XT$   -    -    512     -      -      23.04  -      -      -       -       -       4x16  rx6000
RX 6950 XT   RX 6950 XT$   -    -    576     -      -      23.65  -      -      -       -       -       4x16  rx6000
RX 7600      RX 7600$      -    -    288     -      -      21.75  -      -      43.5    -       -       4x8   rx7000
RX 7700 XT   RX 7700 XT$   -    -    432     -      -      35.17  -      -      70.34   -       -       4x16  rx7000
RX 7800 XT   RX 7800 XT$   -    -    624.1   -      -      37.32  -      -      74.65   -       -       4x16  rx7000
RX 7900 GRE  RX 7900 GRE$  -    -    576     -      -      45.98  -      -      91.96   -       -       4x16  rx7000
RX 7900 XT   RX 7900 XT$   -    -    800     -      -      51.48  -      -      103     -       -       4x16  rx7000
RX 7900 XTX  RX 7900 XTX$  -    -    960     -      -      61.39  -      -      122.8   -       -       4x16  rx7000
RX 9070      RX 9070$      -    -    640     -      -      36.1   -      -      145     289     289     5x16  rx9000
RX 9070 XT   RX 9070 XT$   -    -    640     -      -      48.7   -      -      195     389     389     5x16  rx9000
"""

_FP4 = {"RTX 5080": 900.4, "RTX 5090": 1676.0, "GB200": 10_000.0, "B200": 9000.0, "MI350X": 9227.5, "MI355X": 10_066.3}
"""Rates in FP4 of the few models that have it, from the same documents."""


class Gpu(msgspec.Struct, frozen=True):
    """One model of a GPU. Rates are in TFLOP/s and named after types; None is unknown."""

    name: str
    source: str
    """Vendor document with the figures."""
    sm_count: int | None = None
    """Number of streaming multiprocessors or compute units."""
    bandwidth: float | None = None
    """Bandwidth of the device's memory in GB/s."""
    fp64: float | None = None
    """Rate of the vector units; that of the matrix units is `fp64_matrix`."""
    fp64_matrix: float | None = None
    fp32: float | None = None
    """Rate of the vector units."""
    fp32_matrix: float | None = None
    tf32: float | None = None
    fp16: float | None = None
    """Rate of the matrix units, as for all types below."""
    bf16: float | None = None
    fp8: float | None = None
    int8: float | None = None
    fp4: float | None = None
    """With a scale for each block of 16 or 32 numbers (NVFP4, MXFP4)."""
    bus: float | None = None
    """Bandwidth of the PCIe slot in GB/s, in one direction."""

    def peak(self, dtype: str | None, *, matrix: bool, tensor_cores: bool) -> float | None:
        """Peak rate in TFLOP/s for work on a type; None if unknown.

        Args:
            dtype: Type as the profiler writes it: `float`, `c10::Half`, ...
            matrix: Whether the work is matrix products, which matrix units can do. Other work runs on vector units,
                where 16-bit types are computed in fp32.
            tensor_cores: Whether the kernels are known to run on matrix units. It decides for fp32 (TF32 or not)
                and fp64, where both are common.
        """
        if not matrix:
            return {"double": self.fp64, "float": self.fp32, "c10::Half": self.fp32, "c10::BFloat16": self.fp32}.get(
                dtype or ""
            )
        rates = {
            "double": (self.fp64_matrix or self.fp64) if tensor_cores else self.fp64,
            "float": (self.tf32 or self.fp32_matrix or self.fp32) if tensor_cores else self.fp32,
            "c10::Half": self.fp16,
            "c10::BFloat16": self.bf16,
            "signed char": self.int8,
        }
        return self.fp8 if "Float8" in (dtype or "") else rates.get(dtype or "")


@cache
def known() -> tuple[Gpu, ...]:
    """All GPU models of the table."""
    return tuple(gpu for _, _, gpu in _rows())


def find(device: Device) -> Gpu | None:
    """The GPU model of a device, by name and memory; None if it is not in the table or only a partition of a GPU."""
    name, memory = device.name or "", device.memory_bytes
    if "MIG" in name:
        return None
    for pattern, (least, most), gpu in _rows():
        fits = most == 0 or (memory is not None and least <= memory / 2**30 <= most)
        if fits and pattern.search(name):
            return gpu
    return None


def only(devices: Iterable[Device]) -> Gpu | None:
    """The GPU model of all devices with a name; None if they differ or one is not in the table."""
    named = [find(device) for device in devices if device.name]
    return named[0] if named and all(gpu == named[0] for gpu in named) else None


@cache
def _rows() -> tuple[tuple[re.Pattern[str], tuple[int, int], Gpu], ...]:
    """Lines of the table: name pattern, memory range in GiB (0 to 0 for any), and figures."""
    rows = []
    for table in (_DATA_CENTER, _CARDS, _AMD):
        head, *lines = (re.split(r" {2,}", line) for line in table.strip().splitlines())
        for line in lines:
            cells = {column: None if cell == "-" else cell for column, cell in zip(head, line, strict=True)}
            least, most = map(int, (cells["GiB"] or "0-0").split("-"))
            rows.append((re.compile(cells["pattern"] or "", re.IGNORECASE), (least, most), _gpu(cells)))
    return tuple(rows)


def _gpu(cells: dict[str, str | None]) -> Gpu:
    """The model of a line of a table, by the names of its columns."""
    name, source, sms, slot = cells["model"] or "", cells["from"] or "", cells["SMs"], cells["PCIe"]
    rates = {column: float(cell) for column, cell in cells.items() if cell and column[:2] in ("fp", "tf", "in")}
    return Gpu(
        name,
        _SOURCES[source],
        int(sms) if sms else None,
        float(cells["GB/s"]) if cells["GB/s"] else None,
        fp64=rates.get("fp64"),
        fp64_matrix=rates.get("fp64m"),
        fp32=rates.get("fp32"),
        fp32_matrix=rates.get("fp32m"),
        tf32=rates.get("tf32"),
        fp16=rates.get("fp16"),
        bf16=None if source in _WITHOUT_BF16 else rates.get("fp16"),
        fp8=rates.get("fp8"),
        int8=rates.get("int8"),
        fp4=_FP4.get(name),
        bus=_slot(*map(int, slot.split("x"))) if slot else None,
    )


def _slot(generation: int, lanes: int) -> float:
    """Bandwidth of a slot in GB/s in one direction: 1 GB/s a lane in generation 3, twice that in each later one."""
    return lanes * 2.0 ** (generation - 3)


# Bandwidth of the links between GPUs, from their vendors' data sheets.
#
# Figures are in GB/s (10^9 bytes per second), in one direction, for all links of one GPU together. Data sheets of
# NVLink and Infinity Fabric give the sum of both directions; the table has half of it. A GPU whose data sheet names no
# link for groups of more than two has its PCIe slot.

# Columns are separated by two blanks; models are those of `gpus`.
_LINK_TABLE = """
model           link             GB/s  from
V100S           PCIe             16    PCIe 3.0 x16, NVIDIA V100S data sheet (2020)
V100 PCIe       PCIe             16    PCIe 3.0 x16, NVIDIA V100 data sheet (2020)
V100 SXM2       NVLink           150   NVIDIA V100 data sheet (2020)
T4              PCIe             16    PCIe 3.0 x16, NVIDIA T4 data sheet (2019)
A10             PCIe             32    PCIe 4.0 x16, NVIDIA A10 data sheet (2021)
A40             PCIe             32    PCIe 4.0 x16, NVIDIA A40 data sheet (2021)
A100 80GB PCIe  PCIe             32    PCIe 4.0 x16, NVIDIA A100 data sheet (2021)
A100 40GB PCIe  PCIe             32    PCIe 4.0 x16, NVIDIA A100 data sheet (2021)
A100 80GB SXM   NVLink           300   NVIDIA A100 data sheet (2021)
A100 40GB       NVLink           300   NVIDIA A100 data sheet (2021)
L4              PCIe             32    PCIe 4.0 x16, NVIDIA L4 data sheet (2023)
L40             PCIe             32    PCIe 4.0 x16, NVIDIA L40 data sheet (2022)
L40S            PCIe             32    PCIe 4.0 x16, NVIDIA L40S data sheet (2023)
H100 PCIe       PCIe             64    PCIe 5.0 x16, NVIDIA H100 data sheet (2023)
H100 SXM        NVLink           450   NVIDIA H100 data sheet (2023)
H200 SXM        NVLink           450   NVIDIA H200 data sheet (2024)
B200            NVLink           900   NVIDIA Blackwell data sheet (2025)
GB200           NVLink           900   NVIDIA Blackwell data sheet (2025)
MI300X          Infinity Fabric  448   AMD Instinct MI300X data sheet (2023)
MI325X          Infinity Fabric  448   AMD Instinct MI325X data sheet (2024)
MI350X          Infinity Fabric  537   AMD Instinct MI350X data sheet (2025)
MI355X          Infinity Fabric  537   AMD Instinct MI355X data sheet (2025)
"""


class Interconnect(msgspec.Struct, frozen=True):
    """The link between the GPUs of a machine."""

    name: str
    """`NVLink`, `PCIe` or `Infinity Fabric`."""
    bandwidth: float
    """Bandwidth in GB/s in one direction, for all links of a GPU together."""
    source: str
    """Vendor document with the figure."""


def link_between(devices: Iterable[Device]) -> Interconnect | None:
    """The link of all devices of a trace; None if the devices differ or the link is unknown."""
    gpu = only(devices)
    return None if gpu is None else _LINKS.get(gpu.name)


def _links() -> dict[str, Interconnect]:
    rows = [line.split("  ") for line in _LINK_TABLE.strip().splitlines()[1:]]
    fields = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    return {model: Interconnect(link, float(rate), source) for model, link, rate, source in fields}


_LINKS = _links()
