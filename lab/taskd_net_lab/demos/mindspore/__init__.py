"""msrun's training processes under a Manager, and under the platform's files alone, in scenarios of faults.

`msrun` is a double of MindSpore's launcher; where mindspore is installed, the same scenarios run with the real one.
`trainee` is the training script, `stage` has the processes around it, `evidence` the view of outside observers.
"""
