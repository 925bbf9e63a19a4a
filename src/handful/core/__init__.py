"""What flows through handful, and its arithmetic: tasks, answers, preparation, decisions, parameters, figures."""
