"""The figures that the paper prints, to stand beside ours.

Hamilton and Fulp (CEC 2022): its comparison table, the 95% margins of EMSCO in it, and the sizes of
the global Pareto fronts for up to 2, 3 and 4 stages.
"""

from __future__ import annotations

# accuracy %, coverage %, cost
COMPARISON = {
    "EMSCO": {
        "Pima": (71.1, 99.0, 242.4),
        "Credit": (83.1, 96.1, 365.89),
        "Heart": (83.4, 89.3, 102.4),
        "Synthetic50": (66.4, 100.0, 16.47),
        "Synthetic15": (90.0, 66.0, 56.57),
    },
    "Greedy Miser": {
        "Pima": (68.1, 100.0, 500.0),
        "Credit": (76.4, 100.0, 107.0),
        "Heart": (79.2, 100.0, 38.6),
        "Synthetic50": (65.0, 100.0, 76.5),
        "Synthetic15": (81.2, 100.0, 75.7),
    },
    "CSTC": {
        "Pima": (67.3, 100.0, 624.0),
        "Credit": (78.1, 100.0, 522.0),
        "Heart": (81.1, 100.0, 560.0),
        "Synthetic50": (64.3, 100.0, 72.2),
        "Synthetic15": (85.3, 100.0, 61.3),
    },
    "CaCT LASSO": {
        "Pima": (82.0, 83.4, 1100.0),
        "Credit": (89.1, 80.1, 1420.0),
        "Heart": (88.0, 65.0, 120.0),
        "Synthetic50": (82.6, 92.7, 70.0),
        "Synthetic15": (92.4, 52.3, 60.0),
    },
    "CO-T": {
        "Pima": (72.0, 97.0, 524.0),
        "Credit": (81.3, 93.2, 695.8),
        "Heart": (87.1, 72.0, 255.3),
        "Synthetic50": (77.6, 97.5, 500.0),
        "Synthetic15": (91.2, 58.5, 79.7),
    },
}
MARGINS = {
    "Pima": (0.5, 0.3, 8.2),
    "Credit": (0.7, 0.1, 17.7),
    "Heart": (0.4, 1.2, 5.1),
    "Synthetic50": (0.6, 0.1, 4.3),
    "Synthetic15": (0.1, 0.1, 2.4),
}
FRONT_SIZES = {  # by the most stages
    "Heart": {2: 24, 3: 28, 4: 33},
    "Credit": {2: 47, 3: 141, 4: 171},
    "Pima": {2: 18, 3: 42, 4: 65},
}
